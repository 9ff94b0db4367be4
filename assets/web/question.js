// `sent` is what Python knows; a timer is running while the box holds something else.
const PAUSE = 300
const GLANCE = 150 // after the last key, until an answer is requested to be shown below the box
export default function ({data, parentElement, setStateValue, setTriggerValue}) {
  const find = (name) => parentElement.querySelector(name)
  const box = find("textarea"), field = find(".field"), marks = find(".marks"), clear = find(".clear")
  const folded = find(".folded"), pane = find(".preview")
  const own = box.chemspec ??= {revision: null, sent: "", opened: "", asked: "", glanced: "", timer: 0, glance: 0, page: location.pathname, stop: () => {}}
  own.stop()

  const fit = () => {
    box.style.height = "auto"
    box.style.height = box.scrollHeight + "px"
    clear.hidden = box.value === ""
    marks.scrollTop = box.scrollTop
  }
  const mark = (span) => {
    marks.replaceChildren()
    field.classList.toggle("bad", Boolean(span))
    box.setAttribute("aria-invalid", span ? "true" : "false")
    if (!span) return
    const blamed = document.createElement("mark")
    blamed.textContent = box.value.slice(span[0], Math.max(span[1], span[0] + 1)) || " "
    marks.append(box.value.slice(0, span[0]), blamed, box.value.slice(span[1]))
    marks.scrollTop = box.scrollTop
  }
  // A pasted file is shown by its name: the box stays as it is beneath, to be asked, typed over or cleared.
  const fold = (name) => {
    folded.hidden = !name
    folded.textContent = name
    field.classList.toggle("fold", Boolean(name))
  }
  // The answer to what is typed so far, by a route of its own: Streamlit's pages take longer to run than the model.
  const kind = JSON.stringify(data.preview)
  const show = (html) => {
    pane.innerHTML = html
    pane.hidden = !html
    pane.classList.remove("old")
  }
  const request = async (text) => {
    own.request = new AbortController()
    const {signal} = own.request
    const body = JSON.stringify({...data.preview, text})
    const headers = {"content-type": "application/json"}
    try {
      const answer = await fetch(new URL("preview", document.baseURI), {method: "POST", headers, body, signal})
      const html = answer.status === 200 ? (await answer.json()).html : ""
      if (signal.aborted || box.value !== text) return
      if (html) show(html)
      else pane.classList.add("old") // unfinished: the last answer stays, faint
    } catch (error) {
      if (!signal.aborted) console.debug(error)
    }
  }
  const glance = () => {
    clearTimeout(own.glance)
    own.request?.abort()
    const text = box.value
    own.glanced = kind
    if (!data.preview || !text.trim() || text === own.asked) show("")
    else own.glance = setTimeout(request, GLANCE, text)
  }
  const send = () => {
    clearTimeout(own.timer)
    if (box.value === own.sent) return
    own.sent = box.value
    setStateValue("text", box.value)
  }
  const ask = () => {
    clearTimeout(own.timer)
    own.sent = own.asked = box.value
    glance()
    setTriggerValue("ask", box.value)
  }

  find("label").textContent = data.label
  box.placeholder = data.placeholder
  box.maxLength = data.longest
  if (own.revision !== data.revision) {
    clearTimeout(own.timer)
    // A button elsewhere asked: the focus, which went with it, comes here.
    if (own.revision !== null && document.activeElement === document.body) box.focus({preventScroll: true})
    own.revision = data.revision
    own.sent = own.asked = box.value = data.text
    glance()
  } else if (!pane.hidden && own.glanced !== kind) glance() // another task, model or theme
  fit()
  mark(data.span && data.text === box.value ? data.span : null)
  fold(data.text === box.value && own.opened !== box.value ? data.fold : "")

  folded.onclick = () => {
    own.opened = box.value
    fold("")
    fit()
    box.focus()
  }
  box.oninput = () => {
    fold("")
    fit()
    mark(null)
    clearTimeout(own.timer)
    own.timer = setTimeout(send, PAUSE)
    glance()
  }
  box.onscroll = () => { marks.scrollTop = box.scrollTop }
  box.onblur = send
  box.onkeydown = (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return
    event.preventDefault()
    event.stopPropagation() // the page's button has the same shortcut
    ask()
  }
  clear.onclick = () => {
    box.value = ""
    fold("")
    fit()
    mark(null)
    send()
    glance()
    box.focus()
  }
  const resized = new ResizeObserver(fit)
  resized.observe(field)
  // Where the visitor went to another page, the address is that page's.
  const moved = () => { if (location.pathname === own.page) setTriggerValue("moved", location.search) }
  window.addEventListener("popstate", moved)
  // / goes to the box, 1 to 9 to an answer, j and k to the next and the one before.
  const keys = (event) => {
    const at = event.composedPath()[0]
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName) || at.isContentEditable) return
    const ranks = [...document.querySelectorAll(".cs-rank")]
    const now = ranks.indexOf(document.activeElement)
    const to = {j: now + 1, k: now - 1}[event.key] ?? (/^[1-9]$/.test(event.key) ? event.key - 1 : -1)
    if (event.key === "/") box.focus()
    else if (ranks[to]) {
      ranks[to].focus({preventScroll: true})
      ranks[to].scrollIntoView({block: "center"})
    } else return
    event.preventDefault()
  }
  document.addEventListener("keydown", keys)
  own.stop = () => {
    document.removeEventListener("keydown", keys)
    resized.disconnect()
    window.removeEventListener("popstate", moved)
  }
  return own.stop
}
