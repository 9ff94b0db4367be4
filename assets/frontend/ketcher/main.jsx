// The canvas's half of the contract that chemspec/ui/sketcher.py documents:
// text goes to the canvas only with a new `push`, and the canvas speaks only of edits made by hand.
import 'ketcher-react/dist/index.css';
import './page.css';
import { Editor } from 'ketcher-react';
import { StandaloneStructServiceProvider } from 'ketcher-standalone/dist/binaryWasmNoRender';
import { createRoot } from 'react-dom/client';

const QUIET = 350; // ms without a change before an edit counts as done
// What needs a service on the network, leaves this page, or draws what no SMILES can say.
const HIDDEN = [
  'about', 'any-atom', 'copy-image', 'create-monomer', 'enhanced-stereo', 'extended-table', 'fullscreen', 'help', 'images',
  'miew', 'recognize', 'rgroup', 'sgroup', 'shapes', 'text',
];

const PATIENCE = [3000, 6000, 12000]; // ms to wait for Ketcher's answer, each time it is asked
const UNKNOWN = 'The sketcher cannot show this text.';

let ketcher = null; // Ketcher, once it has loaded
let args = null; // the newest arguments from Python: {smiles, push, seen, height}
let pushed = null; // the last `push` dealt with
let setting = false; // whether a text is being put on the canvas
let known = null; // what the canvas read when Python and canvas last agreed
let sent = 0; // number of the last edit told to Python; grows, also over reloads
let timer = 0;
let turn = Promise.resolve();

// Ketcher takes the focus whenever something is drawn; a person typing in the text box must keep it.
const { focus } = HTMLElement.prototype;
HTMLElement.prototype.focus = function (options) {
  if (document.hasFocus()) focus.call(this, options);
};

function post(type, content) {
  window.parent.postMessage({ isStreamlitMessage: true, type, ...content }, '*');
}

function note(text) {
  const line = document.getElementById('note');
  line.textContent = text;
  line.hidden = !text;
}

// Ketcher's worker loses an answer when two questions meet: ours go one after the other, and what is lost is asked again.
function inTurn(work) {
  turn = turn.then(work, work);
  return turn;
}

async function ask(question) {
  const lost = {};
  for (const wait of PATIENCE) {
    const answer = await Promise.race([question(), new Promise((done) => setTimeout(done, wait, lost))]);
    if (answer !== lost) return answer;
  }
  throw new Error('no answer');
}

const read = () => ask(() => ketcher.getSmiles());
window.readCanvas = () => inTurn(read); // for tests

async function follow() {
  if (!ketcher || !args || args.push === pushed) return;
  const { smiles, push, seen } = args;
  pushed = push;
  if (seen < sent) return; // Python wrote this before it heard of the last edit, which therefore wins
  setting = true;
  note('');
  try {
    const before = ketcher.editor.struct();
    if (smiles) await ask(() => ketcher.setMolecule(smiles));
    else ketcher.editor.clear();
    if (ketcher.editor.struct() === before) note(UNKNOWN); // that is all Ketcher tells
  } catch {
    note(UNKNOWN);
  }
  known = await read().catch(() => null);
  setting = false;
}

async function tell() {
  let now;
  try {
    now = await read();
  } catch {
    note('This drawing cannot be written as SMILES.');
    return;
  }
  const news = known !== null && now !== known;
  known = now;
  if (!news) return;
  note('');
  sent = Math.max(sent + 1, Date.now());
  post('streamlit:setComponentValue', { value: { smiles: now, edit: sent }, dataType: 'json' });
}

function changed() {
  clearTimeout(timer);
  timer = setTimeout(inTurn, QUIET, tell);
}

function ready(loaded) {
  ketcher = loaded;
  window.ketcher = loaded; // Ketcher itself looks for it there
  ketcher.editor.subscribe('change', changed);
  window.dispatchEvent(new Event('resize'));
  inTurn(follow);
}

let mounted = false;
function mount() {
  if (mounted || !args || window.innerHeight < 100) return;
  mounted = true;
  createRoot(document.getElementById('root')).render(
    <Editor
      staticResourcesUrl=""
      structServiceProvider={new StandaloneStructServiceProvider()}
      disableMacromoleculesEditor
      buttons={Object.fromEntries(HIDDEN.map((name) => [name, { hidden: true }]))}
      errorHandler={(message) => note(setting ? UNKNOWN : message)}
      onInit={ready}
    />,
  );
}

// Streamlit opens the frame with no height; and Ketcher fails over a resize while it loads, so it hears of it later.
window.addEventListener('resize', (event) => {
  if (!ketcher) event.stopImmediatePropagation();
  mount();
});
window.addEventListener('message', (event) => {
  if (event.source !== window.parent || event.data?.type !== 'streamlit:render') return;
  args = event.data.args;
  document.documentElement.dataset.theme = event.data.theme?.base ?? 'light';
  post('streamlit:setFrameHeight', { height: args.height });
  mount();
  inTurn(follow);
});
post('streamlit:componentReady', { apiVersion: 1 });
