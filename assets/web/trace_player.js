// Draws a trace (trace_view.py, as `scene` of trace_player.py prepares it) in frames: the player of Step through
// is one frame with all parts and controls, a figure of an answer's card is a still one with a few parts.
// Nothing is asked of the server. All text comes in by textContent; the only markup are RDKit's drawings of molecules
// that RDKit could read.

const BEAT = 1100; // milliseconds of a pass at normal speed
const PATTERNS = ["solid", "double", "dashed", "dotted"];
const MAX_ROWS = 6; // drafts shown of a pass, the best first
const visits = new WeakMap(); // element -> where its visitor stood, kept when the page runs again

const el = (tag, attributes = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
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
const count = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : /[sx]$/.test(what) ? "es" : "s"}`;
const percent = (x) => (x < 0.01 ? "under 1 %" : x > 0.99 ? "over 99 %" : `${Math.round(100 * x)} %`);

const mark = (kind, x, at, title) => {
  const shape = { kept: `M${x - 4.5} ${at}a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0`, done: `M${x - 7} ${at - 7}h14v14h-14z`, ahead: `M${x} ${at - 4}l4 4l-4 4l-4 -4z`, dead: `M${x - 3} ${at - 3}l6 6m0 -6l-6 6` }[kind];
  const made = svg("path", { d: shape, class: `mark ${kind}` });
  if (title) made.append(svg("title", {}, title));
  return made;
};

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector("#trace");
  const visit = visits.get(root);
  const moves = data.autoplay && !matchMedia("(prefers-reduced-motion: reduce)").matches;
  const states = data.frames.map((frame, k) => ({ autoplay: moves, step: frame.step, speed: 1, answer: 0, spare: !data.scenes[frame.scene].several, ...(visit?.id === data.id && visit.states[k]), timer: 0 }));
  visits.set(root, { id: data.id, states });
  root.classList.toggle("dark", data.dark);
  root.classList.toggle("still", matchMedia("(prefers-reduced-motion: reduce)").matches);
  const boxes = data.frames.map((frame) => el("div", { class: `frame ${frame.style}` }));
  const group = el("div", { class: "frames", role: "figure", "aria-label": data.alt }, ...boxes);
  root.replaceChildren(group);
  const ends = data.frames.map((frame, k) => drawFrame(boxes[k], data.scenes[frame.scene], frame, states[k], data.colors));
  return () => ends.forEach((end) => end());
}

// Fills a box with the parts that a frame names; returns what ends it.
function drawFrame(root, scene, frame, state, colors) {
  const { query, answers, passes, tree, several, uneven, relaxed, merged } = scene;
  const unit = merged ? "symbol" : "token"; // a merged token has several symbols: the strips show these
  const last = passes.length;
  const color = (run) => colors[run % colors.length];
  const paint = (node, run) => {
    node.style.setProperty("--c", color(run));
    node.style.setProperty("--p", PATTERNS[run % PATTERNS.length]);
  };
  const tokensNow = () => answers[state.answer].tokens;

  // --- tokens ------------------------------------------------------------------------------------

  const token = (text, side, index, title) => {
    const box = el("span", { class: "tk", role: "listitem", title, tabindex: -1 });
    box.textContent = text;
    box.dataset.side = side;
    box.dataset.index = index;
    return box;
  };
  // A strip is one stop of the tab key; arrows go from token to token inside it.
  const strip = (label) => {
    const box = el("div", { class: "strip", role: "list", "aria-label": label });
    box.addEventListener("keydown", (event) => {
      const move = { ArrowRight: 1, ArrowLeft: -1, Home: -1e9, End: 1e9 }[event.key];
      if (!move || !event.target.classList.contains("tk")) return;
      event.preventDefault();
      event.stopPropagation();
      const all = [...box.querySelectorAll(".tk")];
      const next = all[Math.max(0, Math.min(all.length - 1, all.indexOf(event.target) + move))];
      all.forEach((one) => one.setAttribute("tabindex", one === next ? 0 : -1));
      next.focus();
    });
    return box;
  };
  const firstStop = (box) => box.querySelector(".tk")?.setAttribute("tabindex", 0);

  // --- what links to what --------------------------------------------------------------------------

  // From a token of one side to all that belong to it: tokens of query and answer, hence atoms.
  const links = (side, index) => {
    const own = tokensNow();
    if (side === "query") return { query: [index], answer: own.flatMap((piece, k) => (piece.source === index ? [k] : [])) };
    const source = own[index]?.source;
    return { query: source === null || source === undefined ? [] : [source], answer: [index] };
  };
  const lit = (side, index) => {
    unlit();
    const found = links(side, index);
    for (const [name, own] of Object.entries(found))
      for (const k of own) {
        strips[name].querySelectorAll(`.tk[data-index="${k}"]`).forEach((one) => one.classList.add("lit"));
        const atom = (name === "query" ? query.atoms[k] : tokensNow()[k]?.atom) ?? null;
        if (atom !== null) circle(pictures[name], atom)?.classList.add("lit");
      }
    hint.textContent = describe(side, index, found);
  };
  const unlit = () => {
    root.querySelectorAll(".lit").forEach((one) => one.classList.remove("lit"));
    hint.textContent = restHint;
  };
  const leave = (event) => { if (event.pointerType === "mouse") unlit(); }; // a finger leaves at once
  const restHint = `Point at a ${unit} or an atom to see where it went.`;
  const describe = (side, index, found) => {
    if (side === "query") {
      const where = found.answer.map((k) => k + 1).join(", ");
      const end = where ? `copied to answer ${unit} ${where}` : "not copied into this answer";
      return `${query.tokens[index]} — query ${unit} ${index + 1}: ${end}`;
    }
    const piece = tokensNow()[index];
    const how = { copied: `copied from query ${unit} ${piece.source + 1}`, ahead: "drafted, and confirmed by the model", own: "the model’s own" }[piece.origin];
    const sure = piece.probability === null ? "" : `, ${(100 * piece.probability).toFixed(1)} % sure`;
    const choice = piece.instead ? `; its first choice was ${piece.instead[0]} (${percent(piece.instead[1])})` : "";
    const whole = piece.whole ? ` (of the token ${piece.whole})` : "";
    return `${piece.text}${whole} — answer ${unit} ${index + 1}: ${how}, pass ${piece.pass_number}${sure}${choice}`;
  };
  const watch = (box) => {
    const enter = (event) => {
      const found = event.target.closest?.(".tk[data-index]");
      if (found && found.dataset.index !== "") lit(found.dataset.side, +found.dataset.index);
    };
    box.addEventListener("pointerover", enter);
    box.addEventListener("focusin", enter);
    box.addEventListener("pointerout", leave);
    box.addEventListener("focusout", unlit);
  };

  // --- drawings --------------------------------------------------------------------------------------

  const circle = (box, atom) => box.querySelector(`circle.atom-${atom}`);
  const picture = (source, alt, side) => {
    const box = el("div", { class: "mol", role: "img", "aria-label": alt });
    fill(box, source);
    const tokenOf = (event) => {
      const name = [...(event.target.classList ?? [])].find((one) => /^atom-\d+$/.test(one));
      if (!event.target.classList?.contains("atom-selector") || !name) return -1;
      const atom = +name.slice(5);
      return side === "query" ? query.atoms.indexOf(atom) : tokensNow().findIndex((piece) => piece.atom === atom);
    };
    box.addEventListener("pointerover", (event) => {
      const k = tokenOf(event);
      if (k >= 0) lit(side, k);
    });
    box.addEventListener("pointerout", leave);
    return box;
  };
  const fill = (box, source) => {
    const drawing = source ? new DOMParser().parseFromString(source, "image/svg+xml").documentElement : null;
    if (!drawing || drawing.nodeName !== "svg") return box.replaceChildren(el("p", { class: "nothing" }, "no drawing: the text is no molecule that can be drawn"));
    drawing.querySelectorAll("circle.atom-selector").forEach((one) => {
      one.removeAttribute("style");
      one.setAttribute("r", 1.75 * one.getAttribute("r"));
    });
    // RDKit rounds the corners with strokes that belong to no atom: of a part not written yet they would stay as dots.
    drawing.querySelectorAll("path:not([class])").forEach((one) => one.remove());
    box.replaceChildren(drawing);
  };

  // --- the parts -------------------------------------------------------------------------------------

  const number = (label) => {
    const value = el("dd");
    return { value, box: el("div", {}, value, el("dt", {}, label)) };
  };
  const taken = uneven ? "kept" : "accepted"; // SBS accepts more of a draft than then stays among its best texts
  const steps = several && !uneven; // of a beam, whose hypotheses are of one length
  const counters = {
    pass: number("pass"),
    tokens: number(uneven ? "tokens, longest text" : several ? "beam steps" : "tokens written"),
    mean: number(steps ? "steps a pass, mean" : "tokens a pass, mean"),
    fresh: number("written in this pass"),
    rate: number(steps ? "steps from drafts" : "tokens from drafts"),
    drafted: number("of the drafted tokens right"),
    work: number("computed in this pass"),
    saved: number("passes saved"),
  };
  const icon = (path) => {
    const made = svg("svg", { viewBox: "0 0 16 16", width: 15, height: 15, "aria-hidden": "true", class: "icon" });
    made.append(svg("path", { d: path }));
    return made;
  };
  const button = (label, text, action, extra = {}) => el("button", { type: "button", "aria-label": label, title: label, onclick: action, ...extra }, text);
  const playing = button("Play", "", () => (state.timer ? stop() : play()), { class: "play" });
  const slider = el("input", { type: "range", min: 0, max: last, value: state.step, "aria-label": "Pass", oninput: (event) => jump(+event.target.value) });
  const speed = el("select", { "aria-label": "Speed", title: "Speed", onchange: (event) => { state.speed = +event.target.value; if (state.timer) play(); } });
  for (const x of [0.5, 1, 2, 4]) speed.append(el("option", { value: x, selected: x === state.speed }, `${x}×`));
  const bars = passes.map((step, k) => {
    const most = Math.max(...passes.map((one) => one.emitted), 1);
    const own = el("i", { class: "own", style: `height:${(100 * (step.emitted - step.accepted)) / most}%` });
    const copied = el("i", { class: "copied", style: `height:${(100 * step.accepted) / most}%` });
    return el("span", { class: "bar", title: `pass ${k + 1}: ${count(step.emitted, "token")}, ${step.accepted} accepted`, onclick: () => jump(k + 1) }, copied, own);
  });
  const strips = { query: strip(`Query ${unit}s`), answer: strip(`Answer ${unit}s`) };
  const drafts = el("div", { class: "drafts" });
  const draftsTitle = el("h4");
  const hint = el("p", { class: "hint" }, restHint);
  const says = el("p", { class: "says", "aria-live": "polite" });
  const pictures = {};
  pictures.query = picture(query.svg, `the query, ${query.smiles}`, "query");
  pictures.answer = picture(answers[state.answer].svg, `the answer, ${answers[state.answer].smiles}`, "answer");
  const chooser = el("span", { class: "chooser", role: "group", "aria-label": "Answer shown" });
  if (answers.length > 1)
    answers.forEach((one, k) =>
      chooser.append(button(`Answer ${k + 1}`, `${k + 1}`, () => { state.answer = k; fill(pictures.answer, one.svg); pictures.answer.setAttribute("aria-label", `the answer, ${one.smiles}`); write(); draw(); }, { "aria-pressed": "false" })),
    );
  const treeBox = el("div", { class: "tree", tabindex: 0, role: "img" });
  const treeNote = el("p", { class: "hint" });
  const spare = el("input", { type: "checkbox", onchange: (event) => { state.spare = event.target.checked; grow(); draw(); } });
  spare.checked = state.spare;

  const legend = el("ul", { class: "legend", "aria-label": "Legend" });
  const key = (name, text) => {
    const sample = el("span", { class: "tk " + name, "aria-hidden": "true" }, "C");
    paint(sample, 0);
    legend.append(el("li", {}, sample, text));
  };
  key("copied first last", "copied from the query: colour, underline and number tell which span");
  if (answers.some((one) => one.tokens.some((piece) => piece.origin === "ahead"))) key("ahead", "computed ahead, not copied");
  key("own", "the model’s own; its atoms are ringed");
  if (answers.some((one) => one.tokens.some((piece) => piece.instead))) key("lesser", "let stand, though not the model’s first choice");
  if (!frame.whole) key("rejected", "rejected");
  if (several) key("waiting", "not decided yet");
  if (!frame.whole && frame.parts.includes("query")) key("outlined first last", "span of the current draft");
  if (merged) key("begins", "a token of the model begins; without this mark the one before goes on");

  const captionOf = { query: frame.whole ? "Query: what was copied, one colour a fragment" : several ? "Query: atoms copied in this pass lit" : "Query: atoms of the current draft lit", answer: "Answer: atoms coloured by origin, the model’s own ringed" };
  const drawing = (side, ...more) => el("figure", {}, pictures[side], el("figcaption", {}, captionOf[side], ...more));
  const section = (title, ...children) => el("section", {}, title instanceof Node ? title : el("h4", {}, title), ...children);
  const parts = {
    counters: () => el("dl", { class: "counters" }, ...Object.values(counters).map((one) => one.box)),
    controls: () => el("div", { class: "controls" },
      button("To the start", icon("M2 2h2.4v12H2zM14 2v12L5.4 8z"), () => jump(0)), button("Step back", icon("M12 2v12L3.4 8z"), () => jump(state.step - 1)), playing,
      button("Step forward", icon("M4 2l8.6 6L4 14z"), () => jump(state.step + 1)), button("To the end", icon("M2 2l8.6 6L2 14zM11.6 2H14v12h-2.4z"), () => jump(last)),
      el("div", { class: "scrub" }, el("div", { class: "bars", "aria-hidden": "true" }, ...bars), slider), speed),
    summary: () => says,
    pictures: () => el("div", { class: "pictures" }, drawing("query"), drawing("answer", chooser)),
    query: () => section("Query", strips.query),
    drafts: () => el("section", { class: "room" }, draftsTitle, drafts),
    answer: () => section("Answer", strips.answer),
    hint: () => hint,
    legend: () => legend,
    tree: () => tree && section(several ? "Hypotheses" : "Drafts as a tree", el("p", { class: "hint" }, several ? "Every branch is a text the search considered; it grows to the right, token by token." : "Every branch is a continuation that was drafted; the model follows one of them, and the others end."), treeBox, treeKey(), treeNote,
      ...(tree.unused ? [el("label", { class: "check" }, spare, ` also show what was computed ahead and never needed (${count(tree.unused, "partial answer")})`)] : [])),
    keys: () => el("p", { class: "hint keys" }, `Keys: ← → step, space plays, Home and End jump; Tab enters a strip, where ← → go from ${unit} to ${unit}.`),
  };
  root.append(...frame.parts.map((name) => parts[name]()).filter(Boolean));
  if (frame.parts.includes("controls")) for (const [name, value] of [["role", "group"], ["tabindex", -1], ["aria-label", "Trace player. Left and right arrows step, space plays."]]) root.setAttribute(name, value);

  query.tokens.forEach((text, k) => strips.query.append(token(text, "query", k, `query ${unit} ${k + 1}`)));
  firstStop(strips.query);
  const write = () => {
    strips.answer.replaceChildren(
      ...tokensNow().map((piece, k) => {
        const box = token(piece.text, "answer", k, "");
        if (piece.text === "end" && k === tokensNow().length - 1) box.classList.add("end");
        return box;
      }),
    );
    firstStop(strips.answer);
    [...chooser.children].forEach((one, k) => one.setAttribute("aria-pressed", k === state.answer));
  };
  for (const box of [strips.query, strips.answer, drafts]) watch(box);

  // --- one step ----------------------------------------------------------------------------------------

  const draw = () => {
    const k = state.step;
    const now = k ? passes[k - 1] : null;
    counters.pass.value.textContent = `${k} / ${last}`;
    counters.tokens.value.textContent = `${now ? now.written : 0} / ${passes[last - 1].written}`;
    counters.fresh.value.textContent = now ? count(now.emitted, steps ? "step" : "token") : "–";
    counters.rate.value.textContent = now ? `${now.copied} of ${now.written}` : "–";
    counters.drafted.value.textContent = now ? `${now.copied} of ${now.offered}` : "–";
    counters.work.value.textContent = now ? `${count(now.computed, "token")}, ${now.ms < 10 ? now.ms.toFixed(1) : Math.round(now.ms)} ms` : "–";
    counters.saved.value.textContent = now ? now.saved : 0;
    counters.mean.value.textContent = now ? (now.written / k).toFixed(1) : "–";
    says.textContent = now ? now.summary : `Nothing is written yet. ${relaxed ? "One token a pass, this" : "The standard way"} would take ${count(passes[last - 1].written, "pass")}${relaxed ? "" : ", one per token"}; here it took ${last}.`;
    slider.value = k;
    slider.setAttribute("aria-valuetext", `pass ${k} of ${last}`);
    bars.forEach((bar, i) => { bar.classList.toggle("done", i < k); bar.classList.toggle("now", i === k - 1); });
    unlit();

    // The answer, and which query tokens it has used.
    const used = new Map();
    const fresh = new Map(); // used in this very pass
    const own = tokensNow();
    [...strips.answer.children].forEach((box, i) => {
      const piece = own[i], written = piece.pass_number <= k;
      box.className = "tk" + (box.classList.contains("end") ? " end" : "");
      box.classList.add(written ? piece.origin : "unwritten");
      if (merged && own[i - 1]?.number !== piece.number) box.classList.add("begins");
      if (written && piece.pass_number === k && k > 0) box.classList.add("fresh");
      if (written && piece.instead) box.classList.add("lesser");
      box.removeAttribute("data-label");
      box.title = written ? `pass ${piece.pass_number}` : "not written yet";
      box.setAttribute("aria-label", written ? `${piece.text}, ${piece.origin === "copied" ? "copied" : piece.origin === "own" ? "the model's own" : "drafted"}` : "not written yet");
      if (piece.run === null) return;
      paint(box, piece.run);
      if (own[i - 1]?.run !== piece.run) { box.classList.add("first"); if (written) box.dataset.label = piece.run + 1; }
      if (own[i + 1]?.run !== piece.run || own[i + 1].pass_number > k) box.classList.add("last");
      if (written) { used.set(piece.source, piece.run); if (frame.whole || piece.pass_number === k) fresh.set(piece.source, piece.run); }
    });

    // The drafts.
    const shown = now ? now.drafts.slice(0, MAX_ROWS) : [];
    const total = now ? now.drafts.length + now.hidden : 0;
    draftsTitle.textContent = !now ? "Drafts" : several ? `${uneven ? "Computed along drafts" : "Computed ahead"} in this pass: ${count(now.drafted, "partial answer")}` : total > 1 ? `Drafts of this pass: ${total}` : "Draft of this pass";
    const runOf = (one) => fresh.get(one.start) ?? used.get(one.start);
    drafts.replaceChildren(...shown.map((one) => draftRow(one, runOf(one))));
    if (total > shown.length) drafts.append(el("p", { class: "nothing" }, `and ${total - shown.length} more that went no further`));
    if (!total) drafts.append(el("p", { class: "nothing" }, now ? "nothing was drafted in this pass" : "press Play, or step with the arrow keys"));

    // The query: spans of the drafts outlined, what was copied marked.
    const spans = new Map(); // place -> whether accepted
    const outline = frame.whole ? [] : several ? shown.filter((one) => one.accepted) : shown.length > 4 ? shown.slice(0, 1) : shown;
    for (const one of outline)
      if (one.start !== null) one.tokens.forEach((_, j) => spans.set(one.start + j, spans.get(one.start + j) || j < one.accepted));
    [...strips.query.children].forEach((box, i) => {
      box.className = "tk";
      box.removeAttribute("data-label");
      const run = used.get(i);
      if (run !== undefined) {
        box.classList.add(fresh.has(i) ? "copied" : "used");
        paint(box, run);
        if (used.get(i - 1) !== run) { box.classList.add("first"); box.dataset.label = run + 1; }
        if (used.get(i + 1) !== run) box.classList.add("last");
      }
      if (spans.has(i)) {
        box.classList.add("outlined");
        if (!spans.has(i - 1)) box.classList.add("opens");
        if (!spans.has(i + 1)) box.classList.add("closes");
      }
    });

    atoms(used, fresh, spans, k);
    if (tree) front(k);
  };

  const draftRow = (one, run) => {
    const box = strip("Draft");
    box.classList.add("draft");
    one.tokens.forEach((text, j) => {
      const inside = one.start !== null && one.start + j < query.tokens.length;
      const piece = token(text, "query", inside ? one.start + j : "", inside ? `query ${unit} ${one.start + j + 1}` : "");
      if (merged && one.numbers[j - 1] !== one.numbers[j]) piece.classList.add("begins");
      piece.classList.add(j < one.accepted ? "copied" : j < one.right ? "right" : j < one.waiting ? "waiting" : "rejected");
      if (j < one.accepted) run === undefined || paint(piece, run);
      if (j === 0) piece.classList.add("first");
      if (j === one.accepted - 1) piece.classList.add("last");
      const fate = j < one.accepted ? taken : j < one.right ? "right, written by the model itself" : j < one.waiting ? "not decided yet" : "rejected";
      piece.setAttribute("aria-label", `${text}, ${fate}`);
      piece.title = [piece.title, fate].filter(Boolean).join(": ");
      box.append(piece);
    });
    firstStop(box);
    const tokens = (symbols) => (symbols ? one.numbers[symbols - 1] + 1 : 0); // of which so many symbols are
    const open = tokens(one.waiting) - tokens(one.right), accepted = tokens(one.accepted);
    const share = el("span", { class: "tally" }, open ? `${accepted} ${taken}, ${open} not decided yet` : `${accepted} of ${tokens(one.tokens.length)} ${taken}`);
    const row = el("div", { class: "row" }, box, share);
    if (one.correction) {
      const [text, odds, drafted] = one.correction;
      const sure = (x) => (x === null ? "" : ` (${percent(x)})`);
      row.append(el("span", { class: "tally" }, `the model wrote `, el("b", {}, text), `${sure(odds)}, not `, el("s", {}, one.tokens.filter((_, j) => one.numbers[j] === one.numbers[one.right]).join("")), sure(drafted)));
    }
    return row;
  };

  const atoms = (used, fresh, spans, k) => {
    query.atoms.forEach((atom, i) => {
      const spot = atom === null ? null : circle(pictures.query, atom);
      if (!spot) return;
      const run = used.get(i);
      spot.setAttribute("class", `atom-selector atom-${atom}`);
      if (fresh.has(i) || (spans.has(i) && spans.get(i))) spot.classList.add("copied");
      else if (spans.has(i)) spot.classList.add("tried");
      else if (run !== undefined) spot.classList.add("used");
      if (run !== undefined) spot.style.setProperty("--c", color(run));
      else spot.style.removeProperty("--c");
    });
    const written = new Set();
    for (const piece of tokensNow()) {
      const spot = piece.atom === null ? null : circle(pictures.answer, piece.atom);
      if (piece.atom !== null && piece.pass_number <= k) written.add(piece.atom);
      if (!spot) continue;
      spot.setAttribute("class", `atom-selector atom-${piece.atom}`);
      if (piece.pass_number > k) continue;
      spot.classList.add(piece.origin);
      if (piece.pass_number === k) spot.classList.add("fresh");
      if (piece.run !== null) spot.style.setProperty("--c", color(piece.run));
    }
    pictures.answer.querySelectorAll("[class*='atom-']:not(circle)").forEach((part) => {
      const own = [...part.classList].filter((name) => name.startsWith("atom-")).map((name) => +name.slice(5));
      part.classList.toggle("unwritten", !own.every((atom) => written.has(atom)));
    });
  };

  // --- the tree of hypotheses ----------------------------------------------------------------------------

  const LINE = 20, CHAR = 6.7, GAP = 5, PAD = 10;
  let edges = [], stars = null, columns = [];
  const y = (row) => PAD + 10 + row * LINE;
  const grow = () => {
    if (!tree) return;
    const plan = state.spare ? tree.all : tree.needed;
    columns = [PAD + 4];
    plan.widths.slice(1).forEach((chars) => columns.push(columns[columns.length - 1] + chars * CHAR + GAP));
    const width = columns[columns.length - 1] + 40, height = y(plan.rows - 1) + 18;
    const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
    edges = plan.nodes.map((node) => {
      const group = svg("g"), tip = svg("g");
      const from = columns[node.column - 1], to = columns[node.column], at = y(node.row);
      group.append(svg("path", { class: "edge", d: `M${from} ${y(node.parent_row)}V${at}H${to}` }), svg("text", { x: (from + to) / 2, y: at - 4 }, node.text), tip);
      picture.append(group);
      return { ...node, group, tip, at, to };
    });
    for (const one of edges) one.onward = edges.filter((other) => other.column === one.column + 1 && other.parent_row === one.row);
    stars = svg("g");
    picture.append(mark("kept", columns[0], y(0), "start"), stars);
    treeBox.replaceChildren(picture);
    treeBox.setAttribute("aria-label", `Tree of ${plan.nodes.length} partial answers; ${answers.length} of them became answers.`);
    treeNote.textContent = state.spare && plan.left_out ? `The tree is too large to draw: ${plan.nodes.length.toLocaleString("en")} partial answers are shown, ${plan.left_out.toLocaleString("en")} are left out.` : !state.spare && tree.cut ? `The tree is too large to draw: ${tree.cut.toLocaleString("en")} partial answers that the search went through are left out.` : "";
  };
  const leafTitle = (rank) => `answer ${rank}` + (answers[rank - 1] ? `, ${(100 * answers[rank - 1].probability).toFixed(1)} %` : "");
  const front = (k) => {
    const plan = state.spare ? tree.all : tree.needed;
    for (const one of edges) {
      const fate = k < one.born ? "unborn" : k >= one.dies ? "dead" : k >= one.accepted ? "kept" : "ahead";
      one.group.setAttribute("class", `${fate} ${one.ahead ? "drafted" : ""} ${fate === "kept" && one.answers.includes(state.answer + 1) ? "chosen" : ""}`);
      const ends = !one.onward.some((other) => k >= other.born);
      one.tip.replaceChildren(...(ends && (fate === "dead" || fate === "ahead") ? [mark(fate, one.to, one.at, fate === "dead" ? "dropped: the model prefers another" : "computed ahead, not asked for yet")] : []));
    }
    stars.replaceChildren();
    let right = columns[0];
    for (const [column, row] of plan.beams[k] ?? []) {
      stars.append(mark("kept", columns[column], y(row), "unfinished answer that the search still follows"));
      right = Math.max(right, columns[column]);
    }
    for (const leaf of plan.leaves) {
      if (leaf.step > k) continue;
      const x = columns[leaf.column] + 9;
      stars.append(mark("done", x, y(leaf.row), leafTitle(leaf.rank)), svg("text", { x, y: y(leaf.row) + 3.5, class: "rank" }, leaf.rank));
      right = Math.max(right, columns[leaf.column]);
    }
    if (right + 60 > treeBox.scrollLeft + treeBox.clientWidth || right < treeBox.scrollLeft) treeBox.scrollLeft = right - treeBox.clientWidth + 120;
  };
  function treeKey() {
    const list = el("ul", { class: "legend" });
    for (const [kind, text] of [["kept", "unfinished answer that the search still follows"], ["done", "finished answer, with its rank"], ["ahead", "computed ahead, waiting"], ["dead", "dropped: the model prefers another"]]) {
      const picture = svg("svg", { width: 20, height: 18, class: "sample", "aria-hidden": "true" });
      picture.append(mark(kind, 10, 9));
      list.append(el("li", {}, picture, text));
    }
    for (const [name, text] of [["kept drafted", "thick: had been computed ahead"], ["kept", "thin: computed when asked for"]]) {
      const picture = svg("svg", { width: 28, height: 18, class: "sample", "aria-hidden": "true" }), line = svg("g", { class: name });
      line.append(svg("path", { class: "edge", d: "M2 9H26" }));
      picture.append(line);
      list.append(el("li", {}, picture, text));
    }
    return list;
  }

  // --- time ----------------------------------------------------------------------------------------------

  const go = (k) => {
    state.step = Math.max(0, Math.min(last, k));
    draw();
  };
  // Who steps by hand does not want it to play on.
  const jump = (k) => {
    stop();
    go(k);
  };
  const playbutton = (label) => {
    playing.replaceChildren(icon(label === "Play" ? "M3 2l10 6l-10 6z" : "M3 2h3.4v12H3zM9.6 2H13v12H9.6z"), label);
    playing.setAttribute("aria-label", label);
    playing.title = label;
  };
  const stop = () => {
    clearInterval(state.timer);
    state.timer = 0;
    playbutton("Play");
    says.setAttribute("aria-live", "polite");
  };
  const play = () => {
    clearInterval(state.timer);
    says.setAttribute("aria-live", "off"); // nobody can listen that fast
    if (state.step >= last) go(0);
    playbutton("Pause");
    state.timer = setInterval(() => { go(state.step + 1); if (state.step >= last) stop(); }, BEAT / state.speed);
  };
  const onkey = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.composedPath()[0], tag = target.tagName;
    const inside = event.composedPath().includes(root);
    if (!inside && (target !== document.body || !frame.parts.includes("keys"))) return; // somebody types elsewhere
    if (tag === "SELECT" || (tag === "INPUT" && event.key !== " ")) return; // they have keys of their own
    if (target.type === "checkbox" || (tag === "BUTTON" && event.key === " ") || target === treeBox) return;
    const act = { ArrowRight: () => jump(state.step + 1), ArrowLeft: () => jump(state.step - 1) }[event.key]
      ?? (inside ? { Home: () => jump(0), End: () => jump(last), " ": () => (state.timer ? stop() : play()) }[event.key] : null);
    if (!act) return;
    event.preventDefault();
    act();
  };
  if (frame.parts.includes("controls")) document.addEventListener("keydown", onkey);

  playbutton("Play");
  write();
  grow();
  draw();
  if (state.autoplay) {
    state.autoplay = false; // once: what is drawn anew stands where its visitor left it
    play();
  }
  return () => { clearInterval(state.timer); document.removeEventListener("keydown", onkey); };
}
