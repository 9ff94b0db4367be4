// Builds the sketcher and copies the 3-D viewer: node build.mjs OUT, in a folder with node_modules.
import { build } from 'esbuild';
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';

const out = process.argv[2];
const indigo = 'node_modules/ketcher-standalone/dist/binaryWasmNoRender';
const files = readdirSync(indigo);
const worker = files.find((name) => /^indigoWorker-\w+\.js$/.test(name)); // loaded by its name, as is the wasm
const wasm = files.find((name) => /norender.*\.wasm$/.test(name));

// What a sketcher of small molecules never shows: Ketcher's editor and library of macromolecules, its own 3-D view.
const LEFT_OUT = [
  [/\/data\/monomers\.modern\.js$/, `export default '{"root":{"nodes":[],"connections":[],"templates":[]}}'`],
  [/^\.\/index\.modern-\w+\.js$/, 'export default () => null'],
  [/^miew-react$/, 'export default () => null'],
];
const leaveOut = {
  name: 'leave-out',
  setup(api) {
    LEFT_OUT.forEach(([filter, contents], number) => {
      api.onResolve({ filter }, () => ({ path: String(number), namespace: 'left-out' }));
    });
    api.onLoad({ filter: /.*/, namespace: 'left-out' }, ({ path }) => ({ contents: LEFT_OUT[path][1] }));
  },
};

const common = {
  bundle: true, format: 'esm', minify: true, target: 'es2022', metafile: true, legalComments: 'none', logLevel: 'error',
  define: { 'process.env.NODE_ENV': '"production"', 'process.env': '{}', global: 'globalThis' },
};
const ketcher = join(out, 'ketcher');
const page = await build({
  ...common, entryPoints: ['ketcher/main.jsx'], outdir: ketcher, entryNames: '[name]-[hash]', jsx: 'automatic', plugins: [leaveOut],
});
const background = await build({ ...common, entryPoints: [join(indigo, worker)], outdir: ketcher });
copyFileSync(join(indigo, wasm), join(ketcher, wasm));
chmodSync(join(ketcher, wasm), 0o644); // comes as executable

const written = Object.keys(page.metafile.outputs).map((path) => basename(path));
const html = readFileSync('ketcher/index.html', 'utf8')
  .replace('STYLE', written.find((name) => name.endsWith('.css')))
  .replace('SCRIPT', written.find((name) => name.endsWith('.js')));
writeFileSync(join(ketcher, 'index.html'), html);

mkdirSync(join(out, '3dmol'), { recursive: true });
copyFileSync('node_modules/3dmol/build/3Dmol-min.js', join(out, '3dmol', '3Dmol-min.js'));
writeFileSync(join(out, '3dmol', 'LICENSES.txt'), licences(['3dmol']));

mkdirSync(join(out, 'axe'), { recursive: true }); // for the tests of accessibility; not packed
copyFileSync('node_modules/axe-core/axe.min.js', join(out, 'axe', 'axe.min.js'));

const used = new Set(['indigo-ketcher']);
for (const result of [page, background]) {
  for (const input of Object.keys(result.metafile.inputs)) {
    const match = input.match(/.*node_modules\/((?:@[^/]+\/)?[^/]+)/);
    if (match) used.add(match[1]);
  }
}
writeFileSync(join(ketcher, 'LICENSES.txt'), licences([...used].sort()));

/** Name, version, licence and licence text of every package that went in. */
function licences(names) {
  const texts = names.map((name) => {
    const folder = join('node_modules', name);
    const about = JSON.parse(readFileSync(join(folder, 'package.json')));
    if (about.name !== name) {
      // indigo-ketcher: its wasm comes with ketcher-standalone, so the package itself is not downloaded.
      return `${name}\nCopyright EPAM Systems\nLicence: Apache-2.0 (text below)\n`;
    }
    const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
    const text = file && existsSync(join(folder, file)) ? readFileSync(join(folder, file), 'utf8') : '';
    const author = about.author?.name ?? about.author ?? '';
    return `${name} ${about.version} ${author && `by ${author}`}\nLicence: ${about.license ?? 'as follows'}\n\n${text}`;
  });
  const apache = names.includes('ketcher-core') ? [readFileSync('LICENSE-APACHE-2.0.txt', 'utf8')] : [];
  return [...texts, ...apache].join(`\n\n${'-'.repeat(80)}\n`);
}
