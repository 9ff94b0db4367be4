// Draws an answer as a story (chemspec/replay/explanation.py): where its tokens came from, a race, one pass in slow
// motion, a game, and drafts of other lengths. The same file runs in the app and in a page of its own that needs no
// server. All text comes in by textContent; the only markup are RDKit's drawings, whose styles are set one by one, so
// that a page whose policy forbids inline styles shows them too.

// Milliseconds: a pass of the race, its strips rolling up before it, a card, a stage of the slow motion.
const TICK = 210, ROLL = 800, REVEAL = 130, STAGE = 3600;
const STAGES = ["Look back", "Draft", "One pass", "Compare", "Keep"];
const LINES = ["solid", "double", "dashed", "dotted"];

const el = (tag, attributes = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
};
const svg = (tag, attributes = {}, text = null) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== null) made.textContent = text;
  return made;
};
const b = (text) => el("b", {}, text);
const code = (text) => el("code", {}, text);
const count = (n, what) => `${n} ${what}${n === 1 ? "" : /[sx]$/.test(what) ? "es" : "s"}`;
const percent = (p) => (p === null || p === undefined ? "" : p > 0.995 ? "over 99 %" : p < 0.01 ? "under 1 %" : `${Math.round(100 * p)} %`);
const listed = (items) => (items.length > 1 ? `${items.slice(0, -1).join(", ")} and ${items.at(-1)}` : items.join(""));

// What follows from the recorded counts alone; tests run it without a browser.
export function countPasses(data) {
  const { passes, answer: { tokens } } = data;
  const overruled = passes.map((pass) => pass.accepted < pass.draft.length && tokens[pass.done + pass.accepted]?.text !== pass.draft[pass.accepted]);
  const isOver = (k) => tokens[k].own && overruled[tokens[k].pass - 1];
  return { total: tokens.length, copied: tokens.filter((token) => !token.own).length, overruled, isOver };
}
export const costOf = (clock, drafted) => drafted.reduce((sum, n) => sum + clock.cost[Math.min(n, clock.cost.length - 1)] / clock.cost[0], 0);
export const expectedTokens = (alpha, length) => (alpha === 1 ? length + 1 : (1 - alpha ** (length + 1)) / (1 - alpha));
// Which passes wrote these tokens: [pass, tokens copied, tokens of the model's own], in order.
export function passesOf(data, tokens) {
  const found = new Map();
  for (const k of [...tokens].sort((x, y) => x - y)) {
    const token = data.answer.tokens[k], row = found.get(token.pass) ?? [token.pass, [], []];
    row[token.own ? 2 : 1].push(token.text);
    found.set(token.pass, row);
  }
  return [...found.values()];
}

export default function explain({ data, parentElement }) {
  const root = parentElement.querySelector("#explain");
  root.classList.toggle("dark", data.dark === true);
  root.classList.toggle("light", data.dark === false);
  if (root.dataset.id === data.id) return; // the page ran again; its visitor is somewhere in the story
  root.dataset.id = data.id;
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  root.replaceChildren(...[strip, race, slowMotion, verifier, lengths].map((part) => part(data, calm)).filter(Boolean));
}

// --- what the parts share ----------------------------------------------------------------------------

const colour = (data, run) => (run === null || run === undefined ? null : data.colors[run % data.colors.length]);
const heading = (data, title, small = "") => el(`h${data.level}`, {}, ...(small ? [el("small", {}, small)] : []), title);
const whenSeen = (box, calm, start) => {
  if (calm) return start();
  const seen = new IntersectionObserver((entries) => { if (entries.some((one) => one.isIntersecting)) { seen.disconnect(); start(); } }, { threshold: 0.5 });
  seen.observe(box);
};
const choice = (label, names, pick) => {
  const box = el("div", { class: "seg", role: "group", "aria-label": label });
  names.forEach((name, k) => box.append(el("button", { type: "button", "aria-pressed": String(k === 0), onclick: () => {
    [...box.children].forEach((one, n) => one.setAttribute("aria-pressed", String(n === k)));
    pick(k);
  } }, name)));
  return box;
};

// A strip of tokens is one stop of the tab key; arrows go from token to token, with Shift they take them all.
function tokenStrip(texts, label, moved = () => {}) {
  const box = el("div", { class: "strip", role: "list", "aria-label": label });
  const cells = texts.map((text, k) => {
    const cell = el("span", { class: "tk", role: "listitem", tabindex: k ? -1 : 0 }, text);
    cell.dataset.k = k;
    return cell;
  });
  box.append(...cells);
  box.addEventListener("keydown", (event) => {
    const move = { ArrowRight: 1, ArrowLeft: -1, Home: -1e9, End: 1e9 }[event.key];
    if (!move) return;
    event.preventDefault();
    event.stopPropagation();
    const from = cells.indexOf(event.target), to = Math.max(0, Math.min(cells.length - 1, from + move));
    cells.forEach((cell, k) => cell.setAttribute("tabindex", k === to ? 0 : -1));
    cells[to].focus();
    moved(to, event.shiftKey);
  });
  return { box, cells };
}
function dress(data, cells, upTo, { isOver }) {
  const { tokens } = data.answer;
  cells.forEach((cell, k) => {
    const token = tokens[k], run = token.run;
    cell.className = "tk" + (token.text === "end" && k === tokens.length - 1 ? " end" : "");
    cell.setAttribute("aria-label", k >= upTo ? "not written yet" : `${token.text}, ${token.own ? (isOver(k) ? "the model’s own, in place of the draft’s" : "the model’s own") : "drafted"}, pass ${token.pass}`);
    if (k >= upTo) return cell.classList.add("ghost");
    if (token.own) return cell.classList.add("own", ...(isOver(k) ? ["over"] : []));
    cell.classList.add("copied");
    paint(cell, data, run ?? 0);
    if (tokens[k - 1]?.run !== run || tokens[k - 1].own) cell.classList.add("first");
    if (tokens[k + 1]?.run !== run || tokens[k + 1].own || k + 1 >= upTo) cell.classList.add("last");
  });
}
const paint = (node, data, run) => {
  node.style.setProperty("--c", colour(data, run));
  node.style.setProperty("--l", LINES[run % LINES.length]);
};
const dressPlain = (data, cells, upTo) => cells.forEach((cell, k) => {
  cell.className = "tk" + (k === cells.length - 1 && data.answer.tokens[k].text === "end" ? " end" : "") + (k < upTo ? "" : " ghost");
});

// Molecules of one side. `paint` colours atoms and the bonds between atoms of one colour; `unwritten` atoms stay faint.
function molecules(parts, label) {
  const box = el("div", { class: "mols", role: "img", "aria-label": label });
  const spots = new Map(), bonds = [], labels = [];
  parts.forEach((part, number) => {
    // Inline styles are renamed before a policy can complain of them.
    const drawing = new DOMParser().parseFromString(part.svg.replaceAll(" style=", " data-style="), "image/svg+xml").documentElement;
    if (drawing.nodeName !== "svg") return;
    drawing.querySelectorAll("rect, path:not([class])").forEach((one) => one.remove()); // ground; rounded corners
    drawing.querySelectorAll("[data-style]").forEach(restyle);
    drawing.querySelectorAll("[fill]").forEach((one) => themed(one, "fill", one.getAttribute("fill")));
    const halo = svg("g", { class: "halo" });
    for (const spot of drawing.querySelectorAll("circle.atom-selector")) {
      const atom = part.first + atomsOf(spot)[0], at = { cx: spot.getAttribute("cx"), cy: spot.getAttribute("cy") };
      const glow = svg("circle", { ...at, r: 8 }), ring = svg("circle", { ...at, r: 9, class: "ring" });
      halo.append(glow);
      spot.removeAttribute("style"); // which `restyle` has set
      spot.setAttribute("class", "hit");
      spot.setAttribute("r", 12);
      spot.dataset.atom = atom;
      spot.before(ring);
      spots.set(atom, { hit: spot, ring, glow, ...at });
    }
    for (const path of drawing.querySelectorAll("[class*='atom-']")) {
      const own = atomsOf(path).map((atom) => part.first + atom);
      path.classList.add(path.style.fill === "none" ? "line" : "area");
      labels.push([own, path]);
      const key = own.join();
      if (own.length !== 2 || bonds.some(([pair]) => pair.join() === key)) continue;
      const [from, to] = own.map((atom) => spots.get(atom));
      const line = svg("line", { x1: from.cx, y1: from.cy, x2: to.cx, y2: to.cy, class: "bond" });
      halo.append(line);
      bonds.push([own, line]);
    }
    drawing.prepend(halo);
    drawing.setAttribute("aria-hidden", "true");
    if (number) box.append(el("span", { class: "plus", "aria-hidden": "true" }, "+"));
    box.append(drawing);
  });
  if (!spots.size) box.append(el("span", { class: "dim" }, "no drawing: the text is no molecule that can be drawn"));
  return {
    box,
    paint({ color = () => null, written = () => true, own = () => 0 }) {
      for (const [atom, { glow, ring }] of spots) {
        glow.style.fill = (written(atom) && color(atom)) || "none";
        const kind = written(atom) ? own(atom) : 0;
        ring.setAttribute("class", `ring ${["", "on", "on over"][kind]}`);
      }
      for (const [[from, to], line] of bonds) line.style.stroke = written(from) && written(to) && color(from) && color(from) === color(to) ? color(from) : "none";
      for (const [atoms, path] of labels) path.classList.toggle("unwritten", !atoms.every(written));
    },
    light(atoms) { for (const [atom, { hit }] of spots) hit.classList.toggle("lit", atoms.has(atom)); },
  };
}
const atomsOf = (node) => [...node.classList].filter((name) => /^atom-\d+$/.test(name)).map((name) => +name.slice(5));
const themed = (node, name, value) => {
  const ink = /^#0{6}$/.test(value ?? "");
  node.style.setProperty(name, ink ? "currentColor" : /^#[0-9a-f]{6}$/i.test(value) ? `light-dark(${value}, color-mix(in srgb, ${value} 55%, white))` : value);
};
const restyle = (node) => {
  const rules = node.dataset.style;
  delete node.dataset.style;
  for (const rule of rules.split(";")) {
    const [name, value] = rule.split(":").map((text) => text.trim());
    if (value) themed(node, name, value);
  }
};

// The two sides of a reaction: pictures of query and answer, and which token each atom belongs to.
function pictures(data, { query = true, answer = true } = {}) {
  const made = {};
  if (query) made.query = molecules(data.left, `the query, ${data.query.smiles}`);
  if (answer) made.answer = molecules(data.right, `the answer, ${data.answer.smiles}`);
  made.tokenOf = new Map(data.answer.tokens.flatMap((token, k) => token.atoms.map((atom) => [atom, k])));
  made.queryTokenOf = new Map(data.query.atoms.flatMap((atom, k) => (atom === null ? [] : [[atom, k]])));
  return made;
}
const paintAnswer = (data, drawn, upTo, { isOver }) => {
  const { tokens } = data.answer, at = (atom) => drawn.tokenOf.get(atom) ?? tokens.length;
  drawn.answer.paint({
    written: (atom) => at(atom) < upTo,
    color: (atom) => (tokens[at(atom)]?.own === false ? colour(data, tokens[at(atom)].run ?? 0) : null),
    own: (atom) => (tokens[at(atom)]?.own ? (isOver(at(atom)) ? 2 : 1) : 0),
  });
};

// --- where every token came from ---------------------------------------------------------------------

function strip(data, calm) {
  const known = countPasses(data), { tokens } = data.answer, drawn = pictures(data);
  const runOfQuery = new Map(tokens.flatMap((token) => (token.source === null ? [] : [[token.source, token.run]])));
  const hint = el("p", { class: "say", role: "status" }), rest = "Drag along atoms or tokens of the answer to see which pass wrote them, or point at one.";
  let from = 0;
  const query = tokenStrip(data.query.tokens, "Tokens of the query", (k) => showQuery(k));
  const answer = tokenStrip(tokens.map((token) => token.text), "Tokens of the answer; with Shift, arrows take several", (k, more) => { if (!more) from = k; show(between(from, k)); });
  dress(data, answer.cells, tokens.length, known);
  query.cells.forEach((cell, k) => {
    const run = runOfQuery.get(k);
    if (run === undefined) return cell.classList.add("soft");
    cell.classList.add("copied", ...(runOfQuery.get(k - 1) === run ? [] : ["first"]), ...(runOfQuery.get(k + 1) === run ? [] : ["last"]));
    paint(cell, data, run);
  });
  drawn.query.paint({ color: (atom) => colour(data, runOfQuery.get(drawn.queryTokenOf.get(atom))) });
  paintAnswer(data, drawn, tokens.length, known);

  const between = (x, y) => Array.from({ length: Math.abs(x - y) + 1 }, (_, k) => Math.min(x, y) + k);
  const light = (chosen, sources) => {
    answer.cells.forEach((cell, k) => cell.classList.toggle("lit", chosen.includes(k)));
    query.cells.forEach((cell, k) => cell.classList.toggle("lit", sources.includes(k)));
    drawn.answer.light(new Set(chosen.flatMap((k) => tokens[k].atoms)));
    drawn.query.light(new Set(sources.map((k) => data.query.atoms[k])));
  };
  const show = (chosen) => {
    light(chosen, chosen.map((k) => tokens[k].source).filter((k) => k !== null));
    if (!chosen.length) hint.replaceChildren(rest);
    else if (chosen.length === 1) hint.replaceChildren(...origin(chosen[0]));
    else hint.replaceChildren(...passesOf(data, chosen).flatMap(([pass, copied, own], k) => [k ? "; " : "", b(`pass ${pass}`), ` wrote ${[copied.length ? `${count(copied.length, "token")} of a draft` : "", own.length ? `${listed(own)} of the model’s own` : ""].filter(Boolean).join(" and ")}`]), ".");
  };
  const origin = (k) => {
    const token = tokens[k], pass = data.passes[token.pass - 1], sure = token.p === null ? "" : ` (${percent(token.p)})`;
    const role = token.role && token.role !== "elsewhere" ? `, ${token.role}` : "";
    if (!token.own) return [code(token.text), `${role}: drafted, and in pass ${token.pass} the model agreed${sure}.`];
    if (known.isOver(k)) return [code(token.text), `${role}: in pass ${token.pass} the draft had `, code(pass.draft[k - pass.done]), ` here, and the model wanted `, code(token.text), `${sure}.`];
    return [code(token.text), `${role}: written by the model in pass ${token.pass}${sure}, where ${pass.draft.length ? "the draft ended, all of it right" : "nothing was drafted"}.`];
  };
  const showQuery = (k) => {
    const chosen = tokens.flatMap((token, n) => (token.source === k ? [n] : []));
    if (chosen.length) return show(chosen);
    light([], [k]);
    hint.replaceChildren(code(data.query.tokens[k]), ": not copied into the answer.");
  };

  // Pointers: the answer's tokens and atoms can be dragged along, the query's only pointed at.
  let dragged = null;
  const pointed = (event) => {
    const target = root(event)?.elementFromPoint(event.clientX, event.clientY);
    const token = target?.closest?.(".tk"), atom = target?.dataset?.atom;
    if (token && answer.box.contains(token)) return ["answer", +token.dataset.k];
    if (token && query.box.contains(token)) return ["query", +token.dataset.k];
    if (atom !== undefined && drawn.answer.box.contains(target)) return ["answer", drawn.tokenOf.get(+atom)];
    if (atom !== undefined && drawn.query.box.contains(target)) return ["query", drawn.queryTokenOf.get(+atom)];
    return [null, undefined];
  };
  const follow = (event) => {
    const [side, k] = pointed(event);
    if (k === undefined) return;
    if (dragged) { if (side === "answer" && !dragged.includes(k)) show(dragged = [...dragged, k]); }
    else if (event.pointerType === "mouse" || event.type === "pointerdown") side === "answer" ? show([k]) : showQuery(k);
  };
  const figure = el("div", { class: "fig" });
  figure.addEventListener("pointerdown", (event) => { const [side, k] = pointed(event); dragged = side === "answer" && k !== undefined ? [k] : null; follow(event); if (dragged) event.preventDefault(); });
  figure.addEventListener("pointermove", follow);
  for (const name of ["pointerup", "pointercancel", "pointerleave"]) figure.addEventListener(name, () => { dragged = null; });
  for (const part of [drawn.answer.box, answer.box]) part.classList.add("drag");

  const value = el("b", {}, "all");
  const slider = el("input", { type: "range", min: 0, max: data.passes.length, value: 0, "aria-label": "Tokens of one pass", oninput: (event) => {
    const pass = +event.target.value;
    value.textContent = pass ? `pass ${pass}` : "all";
    event.target.setAttribute("aria-valuetext", value.textContent);
    show(pass ? tokens.flatMap((token, k) => (token.pass === pass ? [k] : [])) : []);
  } });
  const against = tokens.filter((_, k) => known.isOver(k));
  const keys = [["copied first last", "drafted, one colour a piece of the query"], ["own", "the model’s own: the draft had ended"], ...(against.length ? [["own over", "the model’s own, against the draft"]] : [])];
  const legend = el("ul", { class: "key" }, ...keys.map(([name, text]) => { const cell = el("span", { class: `tk ${name}`, "aria-hidden": "true" }, "C"); paint(cell, data, 0); return el("li", {}, cell, text); }));
  show([]);
  figure.append(
    el("div", { class: "rx" }, drawn.query.box, el("span", { class: "to", "aria-hidden": "true" }, "→"), drawn.answer.box),
    el("p", { class: "lab" }, "The query, as the model reads it"), query.box,
    el("p", { class: "lab" }, "The answer, as it was written"), answer.box,
    el("div", { class: "ctl" }, el("label", {}, "Written by ", value, slider)), hint, legend);
  const chemical = against.some((token) => token.role && token.role !== "elsewhere");
  const lesson = el("p", { class: "aha" }, `${data.lead}. `, chemical ? b("Where the copy breaks is where the chemistry happens.") : "");
  return el("section", {}, heading(data, `${count(data.passes.length, "pass")} instead of ${known.total}`),
    el("p", {}, "A reaction model writes a molecule as one writes a word, one token after the other: an atom, a bond, a bracket. The whole network runs for each, a pass. Most of the answer stands in the query already. So let it copy, check the copy, and nothing changes but the clock."),
    figure, lesson, el("p", { class: "fine" }, data.sentence ? `${data.sentence}.` : ""));
}
const root = (event) => event.target.getRootNode();

// --- the race ----------------------------------------------------------------------------------------

function race(data, calm) {
  const known = countPasses(data), { tokens } = data.answer;
  const lanes = ["One token a pass", "With drafts"].map((title, k) => {
    const drawn = pictures(data, { query: false }), number = el("b", {}, "0"), bar = el("i"), line = tokenStrip(tokens.map((token) => token.text), `${title}: tokens`);
    const box = el("div", { class: `lane${k ? " fast" : ""}` }, drawn.answer.box, el("div", {}, el("p", { class: "title" }, title, number), el("div", { class: "bar" }, bar), line.box));
    return { drawn, number, bar, line, box, shown: -1 };
  });
  let clock = data.clocks[0], frame = 0;
  const plans = () => {
    let t = 0;
    const drafted = data.passes.map((pass) => ({ t: (t += clock.cost[Math.min(pass.nodes, clock.cost.length) - 1] / clock.cost[0]), done: pass.done + pass.written }));
    return [tokens.map((_, k) => ({ t: k + 1, done: k + 1 })), drafted];
  };
  const put = (lane, k, plan, t) => {
    const past = plan.filter((step) => step.t <= t), done = past.at(-1)?.done ?? 0;
    lane.bar.style.width = `${Math.min(100, (100 * t) / plan.at(-1).t)}%`;
    lane.number.replaceChildren(count(past.length, "pass"));
    lane.box.classList.toggle("won", k === 1 && done === tokens.length);
    if (lane.shown === done) return;
    lane.shown = done;
    if (k) { dress(data, lane.line.cells, done, known); paintAnswer(data, lane.drawn, done, known); }
    else { dressPlain(data, lane.line.cells, done); lane.drawn.answer.paint({ written: (atom) => (lane.drawn.tokenOf.get(atom) ?? 0) < done }); }
  };
  const says = el("p", { class: "say", role: "status" });
  const verdict = (plan) => {
    const gain = tokens.length / plan.at(-1).t;
    const times = gain > 1.005 ? `${gain.toFixed(gain < 3 ? 2 : 1)} times as fast` : `${(1 / gain).toFixed(2)} times slower`;
    says.replaceChildren(b(clock === data.clocks[0] ? `${count(data.passes.length, "pass")} instead of ${tokens.length}.` : `On ${clock.name}: ${times}.`), ` ${clock.about} The two texts are equal, token by token.`);
  };
  const run = () => {
    cancelAnimationFrame(frame);
    const plan = plans(), end = Math.max(...plan.map((one) => one.at(-1).t)), show = (t) => lanes.forEach((lane, k) => put(lane, k, plan[k], t));
    says.replaceChildren("");
    if (calm) { show(end); return verdict(plan[1]); }
    const began = performance.now(), tick = TICK * Math.min(1, 45 / end);
    const step = (now) => {
      const since = now - began - ROLL, t = Math.max(0, (since - 350) / tick);
      if (since < 0) lanes.forEach((lane, k) => put(lane, k, plan[k], (plan[k].at(-1).t * -since) / ROLL)); // the written strips roll up
      else show(t);
      if (!lanes[0].box.isConnected) return;
      if (t < end) frame = requestAnimationFrame(step);
      else verdict(plan[1]);
    };
    frame = requestAnimationFrame(step);
  };
  const figure = el("div", { class: "fig" }, ...lanes.map((lane) => lane.box),
    el("div", { class: "row" }, el("button", { type: "button", class: "main", onclick: run }, "Race again"), choice("What the clock counts", data.clocks.map((one) => one.name), (k) => { clock = data.clocks[k]; run(); })), says);
  lanes.forEach((lane, k) => put(lane, k, plans()[k], Infinity));
  whenSeen(figure, calm, run);
  return el("section", {}, heading(data, "Same model, same text, two clocks", "The race"),
    el("p", {}, `The next token depends on this one, so the standard way takes ${tokens.length} passes in a row. Below, both ways start together. But passes are not seconds: a pass that checks more tokens takes longer, how much depends on the machine. Change the clock.`), figure);
}

// --- one pass in slow motion -------------------------------------------------------------------------

function slowMotion(data, calm) {
  const { passes, query, answer } = data, known = countPasses(data);
  if (!passes.some((pass) => pass.draft.length)) return null;
  const firstCross = passes.findIndex((pass, k) => known.overruled[k] && pass.accepted > 1);
  let number = Math.max(0, firstCross >= 0 ? firstCross : passes.findIndex((pass) => pass.accepted)), stage = 0, timer = 0;
  const steps = STAGES.map((name, k) => el("button", { type: "button", onclick: () => { stop(); stage = k; draw(); } }, name));
  const drawn = pictures(data), source = tokenStrip(query.tokens, "Tokens of the query"), written = el("div", { class: "strip" }), grid = el("div", { class: "grid" });
  const mask = el("figure", { class: "mask" }), says = el("p", { class: "say", "aria-live": "polite" });
  const chooser = el("select", { "aria-label": "Pass", onchange: (event) => { stop(); number = +event.target.value; stage = 0; draw(); } },
    ...passes.map((pass, k) => el("option", { value: k }, `Pass ${k + 1}: ${pass.accepted} of ${pass.draft.length} right`)));
  const back = el("button", { type: "button", onclick: () => { stop(); if (stage) stage -= 1; else if (number) { number -= 1; stage = 4; } draw(); } }, "Back");
  const next = el("button", { type: "button", class: "main", onclick: () => { stop(); if (stage < 4) stage += 1; else { number = (number + 1) % passes.length; stage = 0; } draw(); } });
  const cell = (text, name) => el("div", { class: `cell ${name}` }, text === "end" ? el("span", { class: "endtk" }, "end") : text);

  function draw() {
    const pass = passes[number], n = pass.draft.length, columns = n + 1;
    chooser.value = number;
    steps.forEach((step, k) => { step.classList.toggle("past", k < stage); k === stage ? step.setAttribute("aria-current", "step") : step.removeAttribute("aria-current"); });
    source.cells.forEach((one, k) => {
      const inDraft = pass.start !== null && k >= pass.start && k < pass.start + n, before = pass.start !== null && k >= pass.start - pass.match && k < pass.start;
      one.className = "tk " + (before ? "ctx" : inDraft && stage ? "span" : "soft");
    });
    const upTo = pass.done + (stage === 4 ? pass.written : 0), from = (atom) => drawn.queryTokenOf.get(atom);
    drawn.query.paint({ color: (atom) => (stage && pass.start !== null && from(atom) >= pass.start && from(atom) < pass.start + n ? data.colors[0] : null) });
    paintAnswer(data, drawn, upTo, known);
    const cells = answer.tokens.slice(0, upTo).map((token) => el("span", { class: "tk" }, token.text));
    dress(data, cells, upTo, known);
    if (stage < 2) cells.slice(pass.done - pass.match).forEach((one) => one.classList.add("ctx"));
    written.replaceChildren(...(upTo ? cells : [el("span", { class: "dim" }, "nothing yet")]));

    grid.style.setProperty("--n", columns);
    const wanted = (j) => (j <= pass.accepted ? [answer.tokens[pass.done + j].text, answer.tokens[pass.done + j].p] : pass.choices[j]?.[0] ?? null);
    const top = [], out = [], ticks = [];
    for (let j = 0; j < columns; j += 1) {
      const fate = stage < 3 ? "draft" : j < pass.accepted ? "kept" : j === pass.accepted ? "no" : "waste";
      top.push(j < n ? cell(pass.draft[j], stage ? fate : "draft hide") : el("div", { class: "cell more" }, stage ? "one more" : ""));
      const [text, p] = wanted(j) ?? ["?", null], mine = stage === 4 && j === pass.accepted;
      const box = cell(text, `out${stage < 2 ? " hide" : ""}${stage > 2 && j > pass.accepted ? " faint" : ""}${mine ? (j < n ? " mine over" : " mine") : ""}`);
      box.append(el("small", {}, stage < 2 || p === null ? "" : p > 0.995 ? ">99 %" : `${Math.round(100 * p)} %`));
      if (pass.choices[j]) box.title = pass.choices[j].map(([name, chance]) => `${name} ${percent(chance)}`).join(", ");
      out.push(box);
      ticks.push(el("div", { class: `tick ${stage < 3 ? "" : j < pass.accepted ? "y" : j === pass.accepted && j < n ? "n" : ""}` }, stage < 3 ? "" : j < pass.accepted ? "✓" : j > pass.accepted ? "" : j < n ? "✗" : "+1"));
    }
    const network = el("div", { class: `net${stage >= 2 ? " on" : ""}${stage === 2 && !calm ? " flash" : ""}` }, stage < 2 ? "the network, waiting" : `the network, once: ${count(columns, "place")} scored at the same time`);
    grid.replaceChildren(...top, network, ...out, ...ticks);
    const rows = drawMask(n, columns);
    mask.classList.toggle("hide", stage < 2);
    [top, out].forEach((line) => line.forEach((one, j) => {
      one.addEventListener("pointerenter", () => { if (stage > 1) top.forEach((other, k) => other.classList.toggle("sees", k < j)); rows.forEach((row, k) => row.classList.toggle("other", k !== j)); });
      one.addEventListener("pointerleave", () => { top.forEach((other) => other.classList.remove("sees")); rows.forEach((row) => row.classList.remove("other")); });
    }));
    says.replaceChildren(...explainStage(pass, n, columns));
    back.disabled = !stage && !number;
    next.textContent = stage < 4 ? `Next: ${STAGES[stage + 1].toLowerCase()}` : number + 1 < passes.length ? "Next pass" : "From the start";
  }
  function drawMask(n, columns) {
    const unit = 14, picture = svg("svg", { viewBox: `0 0 ${(n + 2) * unit} ${columns * unit}`, "aria-hidden": "true" });
    const rows = Array.from({ length: columns }, (_, j) => {
      const row = svg("g");
      for (let k = 0; k <= n; k += 1) row.append(svg("rect", { x: k * unit + (k ? 6 : 0), y: j * unit, width: k ? unit - 2 : unit + 3, height: unit - 2, rx: 2.5, class: k <= j ? "sees" : "" }));
      picture.append(row);
      return row;
    });
    mask.replaceChildren(picture, el("figcaption", {}, "Who sees what. A row is a place: it sees what is written (first column) and the draft before it, nothing else."));
    return rows;
  }
  function explainStage(pass, n, columns) {
    const own = answer.tokens[pass.done + pass.accepted], sure = own?.p ? ` (${percent(own.p)})` : "";
    const tail = answer.tokens.slice(Math.max(0, pass.done - pass.match), pass.done).map((token) => token.text).join("");
    const others = pass.others ? ` ${count(pass.others, "more draft")} went along; this one went furthest.` : "";
    if (stage === 0) return pass.match ? ["Where in the query does the text written last occur? The longest match is ", code(tail.length > 14 ? `…${tail.slice(-14)}` : tail), `, ${count(pass.match, "token")} (grey).`] : [pass.done ? "The query goes on where the copy stands." : "Nothing is written yet, so the draft begins where a molecule of the query begins."];
    if (stage === 1) return [n ? `What follows there is the draft: ${count(n, "token")}. No network was needed for it.${others}` : "There is nothing to draft in this pass."];
    if (stage === 2) return [`All ${count(columns, "place")} go through the network together. Each sees what is written and the draft to its left. Out come ${count(columns, "choice")} for one pass. Point at a place to see what it sees.`];
    if (stage === 3) return pass.accepted === n ? [n ? "Draft and choice agree everywhere." : "Nothing to compare: the pass writes one token, as ever."] : [pass.accepted ? `${pass.accepted} agree. Then` : "Already the first token is wrong:", " the draft has ", code(pass.draft[pass.accepted]), ", the model wants ", code(own.text), `${sure}. What comes after was scored behind a wrong token, and is dropped.`];
    return [`Kept: ${count(pass.accepted, "token")} of the draft, and the model’s own choice at the next place. `, b(`${count(pass.written, "token")} for one pass`), pass.written === 1 ? ": as many as without a draft. No pass is lost." : "."];
  }
  const stop = () => { clearInterval(timer); timer = -1; };
  const figure = el("div", { class: "fig" }, el("div", { class: "row" }, chooser), el("div", { class: "steps", role: "group", "aria-label": "Stages of a pass" }, ...steps),
    el("div", { class: "rx small" }, drawn.query.box, el("span", { class: "to", "aria-hidden": "true" }, "→"), drawn.answer.box),
    el("p", { class: "lab" }, "Query"), source.box, el("p", { class: "lab" }, "Written so far"), written, el("div", { class: "gm" }, grid, mask), says, el("div", { class: "row" }, back, next));
  figure.addEventListener("pointerdown", stop);
  figure.addEventListener("keydown", stop);
  if (calm) stage = 3;
  draw();
  if (!calm) whenSeen(grid, calm, () => { timer ||= setInterval(() => { if (stage === 4 || !figure.isConnected) return stop(); stage += 1; draw(); }, STAGE); });
  return el("section", {}, heading(data, "Guess some tokens. Check all of them at once.", "One pass, in slow motion"),
    el("p", {}, "A network that has to write eight tokens runs eight times. One that has to check eight runs once: the text is all there, and every place can be scored at the same time."), figure,
    el("p", { class: "aha" }, "Each place is scored from what stands to its left. As long as the draft is right up to there, that is ", b("the very number that a pass of its own would have given"), ". That is the whole proof: with any draft, the answer is the same. (Between two tokens that are equally probable to some seven digits, rounding may decide; every run records how close it came.)"));
}

// --- you be the verifier -----------------------------------------------------------------------------

function verifier(data, calm) {
  const rounds = data.passes.filter((pass) => pass.draft.length).slice(0, 8), { tokens } = data.answer, known = countPasses(data);
  if (!rounds.length) return null;
  const drawn = pictures(data), cards = el("div", { class: "cards" }), says = el("p", { class: "say", role: "status" });
  const title = el("b"), dots = el("span", { class: "dots", role: "img" }), written = el("p", { class: "fine" });
  let round = 0, score = [], open = false;
  const all = el("button", { type: "button", onclick: () => judge(rounds[round].draft.length) }, "It keeps them all");
  const next = el("button", { type: "button", class: "main", onclick: () => { if (round + 1 < rounds.length) round += 1; else { round = 0; score = []; } draw(); cards.firstChild?.focus({ preventScroll: true }); } });
  const marks = () => {
    dots.replaceChildren(...rounds.map((_, k) => el("span", { class: score[k] === undefined ? "" : score[k] ? "g" : "r" }, score[k] === undefined ? "○" : score[k] ? "●" : "✗")));
    dots.setAttribute("aria-label", `${score.filter(Boolean).length} right of ${score.length}`);
  };
  function draw() {
    const pass = rounds[round], inDraft = (k) => pass.start !== null && k >= pass.start && k < pass.start + pass.draft.length;
    open = false;
    title.textContent = `Round ${round + 1} of ${rounds.length}`;
    drawn.query.paint({ color: (atom) => (inDraft(drawn.queryTokenOf.get(atom)) ? data.colors[0] : null) });
    paintAnswer(data, drawn, pass.done, known);
    written.replaceChildren("Written so far: ", pass.done ? code(tokens.slice(0, pass.done).map((token) => token.text).join("")) : "nothing");
    cards.replaceChildren(...pass.draft.map((text, k) => el("button", { type: "button", class: "cd", "aria-label": `token ${k + 1} of the draft, ${text}: the model writes another`, onclick: () => judge(k) }, el("span", {}, text), el("span", { class: "m" }))));
    says.replaceChildren("Which one will the model refuse first?");
    all.hidden = false;
    next.hidden = true;
    marks();
  }
  function judge(chosen) {
    if (open) return;
    open = true;
    const pass = rounds[round], right = chosen === pass.accepted, own = tokens[pass.done + pass.accepted], boxes = [...cards.children], wait = calm ? 0 : REVEAL;
    score[round] = right;
    all.hidden = true;
    boxes.forEach((box) => { box.disabled = true; });
    boxes[chosen]?.classList.add("pick");
    boxes.forEach((box, k) => setTimeout(() => {
      if (k > pass.accepted) return box.classList.add("cut");
      box.classList.add("up", k < pass.accepted ? "y" : "n");
      box.lastChild.textContent = tokens[pass.done + k].text;
    }, wait * Math.min(k, pass.accepted + 1)));
    setTimeout(() => {
      marks();
      says.replaceChildren(b(right ? "Right. " : "No. "), `It keeps ${pass.accepted} of ${pass.draft.length} and writes `, code(own.text), ` itself${own.p ? ` (${percent(own.p)})` : ""}. `, reason(pass, own));
      if (round + 1 === rounds.length) says.append(b(` ${score.filter(Boolean).length} of ${rounds.length}. `), "And it never mattered: right or wrong, your guess changed nothing in the text.");
      next.hidden = false;
      next.textContent = round + 1 < rounds.length ? "Next round" : "Play again";
    }, wait * (pass.accepted + 2));
  }
  const reason = (pass, own) => {
    if (pass.accepted === pass.draft.length) return "The piece is far from the reaction: all right, and the model adds one more.";
    if (own.text === "end") return "The answer is finished; the query goes on.";
    if (own.role && own.role !== "elsewhere") return `This is an atom ${own.role}.`;
    return pass.accepted ? "From here on the answer goes another way than the query." : "The copy came from the wrong place of the query.";
  };
  drawn.answer.box.classList.add("veil"); // what is not written yet would tell
  draw();
  return el("section", {}, heading(data, "Where will the model stop copying?", "You be the verifier"),
    el("p", {}, "You get the draft; the model’s choices lie face down. Press the first token that it will not write, or keep them all. Think like a chemist."),
    el("div", { class: "fig" }, el("div", { class: "row spread" }, title, dots), el("div", { class: "rx" }, drawn.query.box, el("span", { class: "to", "aria-hidden": "true" }, "→"), drawn.answer.box), written,
      el("p", { class: "lab" }, "The draft above, the model’s choice below"), cards, el("div", { class: "row" }, all, next), says));
}

// --- how long a draft should be ----------------------------------------------------------------------

function lengths(data) {
  const runs = data.lengths, longest = runs.length - 1, total = data.answer.tokens.length;
  if (!runs.length) return null;
  let clock = data.clocks[0];
  const gamma = el("input", { type: "range", min: 0, max: longest, value: Math.min(8, longest), "aria-label": "Tokens of a draft", oninput: () => draw() });
  const alpha = el("input", { type: "range", min: 0.3, max: 0.99, step: 0.01, value: Math.min(0.99, Math.max(0.3, data.alpha)).toFixed(2), "aria-label": "Probability that a drafted token is right", oninput: () => draw() });
  const chart = el("div"), blocks = el("div", { class: "blocks", "aria-hidden": "true" }), facts = el("dl", { class: "big" }), gammaNow = b(""), alphaNow = b("");
  function draw() {
    const g = +gamma.value, a = +alpha.value, run = runs[g], cost = (n) => clock.cost[Math.min(n, clock.cost.length - 1)] / clock.cost[0];
    const dots = runs.map((one) => total / costOf(clock, one.map(([drafted]) => drafted))), line = runs.map((_, k) => expectedTokens(a, k) / cost(k));
    const best = dots.indexOf(Math.max(...dots)), drafted = run.reduce((sum, [n]) => sum + n, 0), accepted = run.reduce((sum, [, n]) => sum + n, 0);
    gammaNow.textContent = g;
    alphaNow.textContent = a.toFixed(2);
    const boxes = (n, name) => Array.from({ length: n }, () => el("i", { class: name }));
    blocks.replaceChildren(...run.map(([n, kept]) => el("span", {}, ...boxes(kept, ""), ...boxes(1, "o"), ...boxes(n - kept, "w"))));
    const fact = (value, text) => el("div", {}, el("dt", {}, text), el("dd", {}, value));
    facts.replaceChildren(fact(run.length, "passes"), fact((total / run.length).toFixed(1), "tokens a pass"), fact(drafted ? `${Math.round((100 * accepted) / drafted)} %` : "–", "of drafted tokens right"), fact(`${dots[g].toFixed(2)}×`, clock === data.clocks[0] ? "fewer passes" : `as fast on ${clock.name}`), fact(`${best}`, "tokens are best here"));
    chart.replaceChildren(drawChart(dots, line, g, best, clock === data.clocks[0] ? "times fewer passes" : "times as fast"));
  }
  function drawChart(dots, line, g, best, label) {
    const wide = Math.max(280, chart.clientWidth || 640), high = wide < 500 ? 230 : 300, left = 40, low = 40, top = 16, most = Math.ceil(Math.max(...dots, ...line, 1.5) + 0.2);
    const x = (k) => left + ((wide - left - 14) * k) / longest, y = (v) => top + (high - low - top) * (1 - v / most);
    const picture = svg("svg", { class: "chart", viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": `${label} by draft length: ${dots[g].toFixed(2)} at ${g} tokens, at best ${dots[best].toFixed(2)} at ${best}` });
    for (let v = 0; v <= most; v += most > 6 ? 2 : 1) picture.append(svg("line", { x1: left, x2: wide - 14, y1: y(v), y2: y(v), class: "ax" }), svg("text", { x: left - 8, y: y(v) + 4, "text-anchor": "end" }, v));
    for (let k = 0; k <= longest; k += wide < 500 ? 6 : 4) picture.append(svg("text", { x: x(k), y: high - low + 20, "text-anchor": "middle" }, k));
    picture.append(svg("text", { x: (left + wide) / 2, y: high - 4, "text-anchor": "middle" }, "tokens of a draft"), svg("text", { x: left + 4, y: top - 2 }, label),
      svg("line", { x1: left, x2: wide - 14, y1: y(1), y2: y(1), class: "ax one" }), svg("path", { d: line.map((v, k) => `${k ? "L" : "M"}${x(k)} ${y(v)}`).join(""), class: "model" }),
      svg("line", { x1: x(g), x2: x(g), y1: y(0), y2: y(dots[g]), class: "now" }));
    dots.forEach((v, k) => {
      const dot = svg("circle", { cx: x(k), cy: y(v), r: k === g ? 8 : k === best ? 6 : 4.5, class: k === g ? "dot now" : "dot" });
      dot.append(svg("title", {}, `${k} tokens: ${v.toFixed(2)} times`));
      dot.addEventListener("click", () => { gamma.value = k; draw(); });
      picture.append(dot);
    });
    return picture;
  }
  new ResizeObserver(draw).observe(chart); // letters keep their size on a phone
  draw();
  return el("section", {}, heading(data, "Long drafts are a bet", "How long should a draft be?"),
    el("p", {}, "Every dot is this very answer with drafts of that many tokens, copied from the query. The line is the formula of Leviathan et al.: with probability α that a drafted token is right, a pass writes (1 − α^(γ+1)) / (1 − α) tokens. Move α until it fits. Then change the machine: where a wide pass is dear, the best length shrinks."),
    el("div", { class: "fig" }, choice("What counts", data.clocks.map((one) => one.name), (k) => { clock = data.clocks[k]; draw(); }), chart,
      el("div", { class: "ctl two" }, el("label", {}, "Tokens of a draft, γ: ", gammaNow, gamma), el("label", {}, "Probability that one is right, α: ", alphaNow, alpha)),
      el("p", { class: "lab" }, "One box a token, one group a pass"), blocks,
      el("ul", { class: "key" }, ...[["", "accepted"], ["o", "the model’s own"], ["w", "rejected"]].map(([name, text]) => el("li", {}, el("span", { class: "blocks" }, el("i", { class: name })), text))), facts),
    el("p", {}, "Drafts do not fail at random: what is left are the failures where the reaction takes place, and no length avoids those. So chemspec fixes no length. Its drafter weighs, before every pass, the probability of each token against the measured cost of a wider pass on your machine."));
}
