// Replays recorded runs as lanes. All text comes from the data and is set as text, never as HTML.
const SPEEDS = [[1, "true speed"], [1 / 4, "1/4"], [1 / 10, "1/10"], [1 / 100, "1/100"]];
const ENOUGH = 700; // ms that the fastest lane should last, so that an eye can follow
const TOO_MUCH = 30000; // ms of the whole replay
const NOTCHES = 500; // of the time slider: whole numbers: a step that is none may miss the end
const ORDINALS = ["first", "second", "third", "fourth"];

function make(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

const time = (ms) => (ms >= 1000 ? `${(ms / 1000).toFixed(2)} s` : `${ms.toFixed(ms < 100 ? 1 : 0)} ms`);

function laneView(lane, number, shown) {
  const box = make("section", "lane");
  box.setAttribute("aria-label", `${lane.name}: ${lane.tokens.length} tokens in ${lane.ends.length} passes${shown ? `, ${shown(lane.ms)}` : ""}`);
  const head = make("div", "head");
  const place = make("span", "place");
  const clock = make("span", "clock");
  const passes = make("span", "passes");
  head.append(make("span", "number", String(number)), make("span", "name", lane.name), place, passes, clock);
  const track = make("div", "track");
  const fill = make("div", "fill");
  track.append(fill);
  const strip = make("div", "tokens");
  const chips = lane.tokens.map(([text, kind], place) => {
    const chip = make("span", `token ${kind}`, text);
    chip.title = `pass ${lane.by[place] + 1}` + (kind === "copied" ? ", copied from a draft" : "");
    return chip;
  });
  strip.append(...chips);
  box.append(head, track, strip);
  if (lane.note) box.append(make("p", "note", lane.note));
  return { lane, shown, box, place, clock, passes, fill, chips, written: -1 };
}

function draw(view, t, rank) {
  const { lane, shown, chips } = view;
  let passes = 0;
  while (passes < lane.ends.length && (lane.ends[passes] <= t || t >= lane.ms)) passes += 1;
  let written = 0;
  while (written < chips.length && lane.by[written] < passes) written += 1;
  const done = passes === lane.ends.length;
  view.clock.textContent = shown ? shown(Math.min(t, lane.ms)) : "";
  view.passes.textContent = `${passes} of ${lane.ends.length} passes`;
  view.place.textContent = done ? rank : "";
  view.box.classList.toggle("done", done);
  if (written === view.written) return;
  chips.forEach((chip, place) => chip.classList.toggle("on", place < written));
  view.fill.style.width = `${chips.length ? (100 * written) / chips.length : 100}%`;
  view.written = written;
}

function build(root, data) {
  const shown = data.clock ? time : null; // without a clock a pass is a unit of time
  const longest = Math.max(...data.lanes.map((lane) => lane.ms), 0.001);
  const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  const order = data.lanes.map((lane) => lane.ms).sort((a, b) => a - b);
  const rank = (lane) => ORDINALS[order.indexOf(lane.ms)] ?? "";
  const race = { id: data.id, t: still ? longest : 0, playing: !still, frame: 0, last: 0 };
  const bearable = SPEEDS.filter(([speed]) => longest / speed <= TOO_MUCH);
  race.speed = (bearable.find(([speed]) => order[0] / speed >= ENOUGH) ?? bearable.at(-1) ?? SPEEDS[0])[0];

  const views = data.lanes.map((lane, number) => laneView(lane, number + 1, shown));
  const play = make("button", "play");
  const restart = make("button", "restart", "Restart");
  restart.title = "Restart (Home)";
  const slider = make("input", "time");
  Object.assign(slider, { type: "range", min: 0, max: NOTCHES, step: 1 });
  slider.setAttribute("aria-label", "Time in the race");
  const speeds = make("div", "speeds");
  speeds.setAttribute("role", "group");
  speeds.setAttribute("aria-label", "Speed of the replay");
  const buttons = SPEEDS.map(([speed, name]) => {
    const button = make("button", "", shown || speed < 1 ? name : "fast");
    button.onclick = () => { race.speed = speed; update(); };
    return button;
  });
  speeds.append(...buttons);
  const controls = make("div", "controls");
  controls.append(play, restart, slider, speeds);
  const legend = make("p", "legend");
  const kinds = new Set(data.lanes.flatMap((lane) => lane.tokens.map(([, kind]) => kind)));
  const keys = [["copied", "accepted from a draft"], ["own", "the model's own"]];
  keys.filter(([kind]) => kinds.has(kind)).forEach(([kind, text]) => {
    legend.append(make("span", `token on key ${kind}`, "C"), make("span", "", text));
  });
  const told = make("p", "told");
  told.setAttribute("aria-live", "polite");

  function update() {
    views.forEach((view) => draw(view, race.t, rank(view.lane)));
    play.textContent = race.playing ? "Pause" : "Play";
    play.title = `${play.textContent} (space bar)`;
    buttons.forEach((button, place) => button.setAttribute("aria-pressed", String(SPEEDS[place][0] === race.speed)));
    slider.value = Math.round((NOTCHES * race.t) / longest);
    slider.setAttribute("aria-valuetext", shown ? shown(race.t) : `pass ${Math.floor(race.t)}`);
    if (race.t >= longest && !told.textContent) {
      const first = data.lanes.find((lane) => lane.ms === order[0]);
      told.textContent = `${first.name} was done first, after ${shown ? shown(first.ms) : `${first.ends.length} passes`}.`;
    }
  }
  function step(now) {
    race.t = Math.min(longest, race.t + (now - race.last) * race.speed);
    race.last = now;
    race.playing = race.t < longest;
    update();
    if (race.playing) race.frame = requestAnimationFrame(step);
  }
  race.stop = () => cancelAnimationFrame(race.frame);
  race.go = () => {
    race.stop();
    if (!race.playing) return;
    race.last = performance.now();
    race.frame = requestAnimationFrame(step);
  };
  function toggle() {
    if (!race.playing && race.t >= longest) race.t = 0;
    race.playing = !race.playing;
    race.go();
    update();
  }
  function again() {
    Object.assign(race, { t: 0, playing: true });
    race.go();
    update();
  }
  play.onclick = toggle;
  restart.onclick = again;
  slider.oninput = () => {
    const notch = Number(slider.value);
    Object.assign(race, { t: notch === NOTCHES ? longest : (longest * notch) / NOTCHES, playing: false });
    race.stop();
    update();
  };
  root.onkeydown = (event) => {
    const onButton = event.target.tagName === "BUTTON";
    if (event.key === " " && !onButton) toggle();
    else if (event.key === "Home") again();
    else return;
    event.preventDefault();
  };
  root.tabIndex = 0;
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "Replay of the race; space bar plays and pauses, Home restarts");
  root.replaceChildren(controls, ...views.map((view) => view.box), legend, make("p", "caption", data.caption), told);
  update();
  return race;
}

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".race");
  // A run of the script draws this again; the replay of the same race goes on.
  if (root.race?.id !== data.id) {
    root.race?.stop();
    root.race = build(root, data);
  }
  root.race.go();
  return () => root.race?.stop();
}
