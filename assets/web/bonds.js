// A drawing whose bonds can be marked: a click, Enter or the space bar goes from unmarked to "must break" to "must stay",
// or to those of the two that are asked for.
// One stop of the tab key; arrows go from bond to bond. Marks are shown at once and then told to Python.
const NS = "http://www.w3.org/2000/svg"
const SAYS = {"": "free", cut: "must break", keep: "must stay"}

const made = (name, attributes) => {
  const node = document.createElementNS(NS, name)
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value)
  return node
}
const marking = (kind, [x1, y1], [x2, y2]) => {
  const [dx, dy] = [x2 - x1, y2 - y1], length = Math.hypot(dx, dy) || 1
  const [ux, uy] = [dx / length, dy / length], [mx, my] = [(x1 + x2) / 2, (y1 + y2) / 2]
  if (kind === "keep") return `M${x1 + dx * .2} ${y1 + dy * .2}L${x1 + dx * .8} ${y1 + dy * .8}`
  const slash = (shift) => { // across the bond, leaning
    const [cx, cy] = [mx + ux * shift, my + uy * shift], [ax, ay] = [-uy * 7 + ux * 2.5, ux * 7 + uy * 2.5]
    return `M${cx - ax} ${cy - ay}L${cx + ax} ${cy + ay}`
  }
  return kind === "cut" ? slash(-2.5) + slash(2.5) : ""
}

export default function ({data, parentElement, setTriggerValue}) {
  const box = parentElement.querySelector(".drawing"), told = parentElement.querySelector(".told")
  const own = box.chemspec ??= {svg: "", marks: {}}
  // A run that began before the last click brings older marks: they come too late.
  if (own.smiles !== data.smiles) Object.assign(own, {smiles: data.smiles, turn: data.turn})
  if (data.turn >= own.turn) {
    own.turn = data.turn
    own.marks = {}
    for (const kind of ["cut", "keep"]) for (const name of data[kind]) own.marks[name] = kind
  }
  const send = () => {
    const of = (kind) => data.bonds.filter(([, , name]) => own.marks[name] === kind).map(([, , name]) => name)
    setTriggerValue("marks", {smiles: data.smiles, cut: of("cut"), keep: of("keep"), turn: ++own.turn})
  }
  const paint = () => {
    for (const one of box.querySelectorAll(".bond")) {
      const kind = own.marks[one.dataset.name] ?? ""
      one.setAttribute("class", `bond ${kind}`)
      one.setAttribute("aria-label", `bond ${one.dataset.name}: ${SAYS[kind]}`)
      one.querySelector(".mark").setAttribute("d", marking(kind, JSON.parse(one.dataset.from), JSON.parse(one.dataset.to)))
    }
    const of = (kind) => Object.keys(own.marks).filter((name) => own.marks[name] === kind).join(", ")
    told.replaceChildren()
    for (const kind of ["cut", "keep"])
      if (of(kind)) {
        const says = document.createElement("b")
        says.textContent = `${kind === "cut" ? "//" : "▬"} ${SAYS[kind]}: `
        told.append(says, of(kind), " ")
      }
    if (told.firstChild) {
      const clear = document.createElement("button")
      clear.type = "button"
      clear.textContent = "clear"
      clear.onclick = () => { own.marks = {}; paint(); send(); box.querySelector(".bond")?.focus() }
      told.append(clear)
    } else told.textContent = data.hint
  }
  const turn = (one) => {
    const turns = ["", ...data.kinds]
    own.marks[one.dataset.name] = turns[(turns.indexOf(own.marks[one.dataset.name] ?? "") + 1) % turns.length]
    paint()
    send()
  }
  if (own.svg !== data.svg) {
    const focused = box.contains(box.getRootNode().activeElement) && box.getRootNode().activeElement.dataset?.name
    own.svg = data.svg
    const drawing = new DOMParser().parseFromString(data.svg, "image/svg+xml").documentElement
    const place = (atom) => {
      const circle = drawing.querySelector(`circle.atom-${atom}`)
      return circle ? [+circle.getAttribute("cx"), +circle.getAttribute("cy")] : null
    }
    const bonds = data.bonds.map(([first, second, name]) => [place(first), place(second), name]).filter(([a, b]) => a && b)
    drawing.querySelectorAll("circle.atom-selector").forEach((one) => one.remove())
    bonds.forEach(([from, to, name], number) => {
      const group = made("g", {class: "bond", role: "button", tabindex: number ? -1 : 0})
      Object.assign(group.dataset, {name, from: JSON.stringify(from), to: JSON.stringify(to)})
      group.append(
        made("line", {class: "hit", x1: from[0], y1: from[1], x2: to[0], y2: to[1]}), made("path", {class: "mark"}), made("title", {}))
      group.querySelector("title").textContent = name
      drawing.append(group)
    })
    box.replaceChildren(drawing)
    box.classList.toggle("dark", data.dark)
    if (focused) box.querySelector(`[data-name="${focused}"]`)?.focus()
  }
  box.setAttribute("aria-label", data.label)
  box.onclick = (event) => {
    const one = event.target.closest(".bond")
    if (one) turn(one)
  }
  box.onkeydown = (event) => {
    const all = [...box.querySelectorAll(".bond")], now = all.indexOf(event.target.closest(".bond"))
    if (now < 0) return
    const move = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key]
    if (move) {
      const next = all[(now + move + all.length) % all.length]
      all.forEach((one) => one.setAttribute("tabindex", one === next ? 0 : -1))
      next.focus()
    } else if (event.ctrlKey || event.metaKey) return  // Ctrl+Enter predicts
    else if (event.key === "Enter" || event.key === " ") turn(all[now])
    else return
    event.preventDefault()
    event.stopPropagation()
  }
  paint()
}
