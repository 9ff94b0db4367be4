// On a phone the menu lies over the page: it closes once a page is chosen.
const narrow = () => window.innerWidth < 768
const close = () => document.querySelector("[data-testid=stSidebarCollapseButton] button")?.click()
if (!window.chemspecShell) {
  window.chemspecShell = true
  document.addEventListener("click", (event) => {
    if (narrow() && event.target.closest?.("[data-testid=stSidebar] a")) setTimeout(close, 50)
  })
}
