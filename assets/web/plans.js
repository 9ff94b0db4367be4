// Keeps the ids of a visitor's searches in the browser, so that they are found again in another tab or on another day.
const KEY = "chemspec-plans", MOST = 30

export default function ({data, setStateValue}) {
  let kept = []
  try {
    kept = JSON.parse(localStorage.getItem(KEY) ?? "[]").filter((id) => typeof id === "string")
  } catch { /* a browser that keeps nothing, or a damaged entry: the list begins anew */ }
  const ids = [...new Set([...data.ids, ...kept])].filter((id) => !data.gone.includes(id)).slice(0, MOST)
  try {
    localStorage.setItem(KEY, JSON.stringify(ids))
  } catch { /* then the list lasts as long as the tab */ }
  if (ids.some((id) => !data.ids.includes(id))) setStateValue("ids", ids)
}
