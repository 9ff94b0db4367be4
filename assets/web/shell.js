// On a phone the menu lies over the page: it closes once a page is chosen.
const narrow = () => window.innerWidth < 768
const close = () => document.querySelector("[data-testid=stSidebarCollapseButton] button")?.click()
// Every card has the same buttons: who hears them is told whose they are.
const nameButtons = () => {
  for (const card of document.querySelectorAll("[class*=st-key-predict_][class*=_card]")) {
    const rank = card.querySelector(".cs-rank")?.textContent
    for (const button of rank ? card.querySelectorAll("button") : []) {
      const text = button.querySelector("[data-testid=stMarkdownContainer]")?.textContent.trim()
      const name = button.closest("[data-testid=stCode]") ? `Copy answer ${rank}` : text && `${text}, answer ${rank}`
      if (name && button.getAttribute("aria-label") !== name) button.setAttribute("aria-label", name)
    }
  }
}
// Streamlit tells its own part of the page alone whether it is dark; what floats above it stands elsewhere. Drawings and
// charts come from the script: where the scheme changes while the page is open, Streamlit's key for "run again" is pressed.
const tellScheme = (app) => {
  const root = document.documentElement.style, now = getComputedStyle(app).colorScheme, before = root.colorScheme
  root.colorScheme = now
  if (before && before !== now) document.dispatchEvent(new KeyboardEvent("keydown", {key: "r", code: "KeyR", bubbles: true}))
}
if (!window.chemspecShell) {
  window.chemspecShell = true
  const app = document.querySelector("[data-testid=stApp]")
  new MutationObserver(() => tellScheme(app)).observe(app, {attributes: true, attributeFilter: ["class"]})
  tellScheme(app)
  let waiting = false
  new MutationObserver(() => {
    if (waiting) return
    waiting = true
    requestAnimationFrame(() => {
      waiting = false
      nameButtons()
    })
  }).observe(document.body, {childList: true, subtree: true})
  document.addEventListener("click", (event) => {
    if (narrow() && event.target.closest?.("[data-testid=stSidebar] a")) setTimeout(close, 50)
  })
}
