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
// A page that is opened writes its question into the address, and Streamlit makes that one more entry of the history: on
// the same page, or, where the question comes first, on the page before. Back would stop there. So only what the visitor
// does makes an entry; what follows by itself changes it.
const oneEntryPerAction = () => {
  let entries = 1 // since the visitor did something
  const push = history.pushState.bind(history)
  history.pushState = (state, title, url) => {
    if (entries++) history.replaceState(state, title, url)
    else push(state, title, url)
  }
  window.addEventListener("popstate", () => { entries = 1 })
  for (const kind of ["pointerdown", "keydown", "input", "drop"]) {
    window.addEventListener(kind, () => { entries = 0 }, {capture: true})
  }
}
if (!window.chemspecShell) {
  window.chemspecShell = true
  oneEntryPerAction()
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
