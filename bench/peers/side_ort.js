// Measures ONNX Runtime once: `node side_ort.js SPEC.json THREADS SECONDS` prints {"ms": median}.
//
// A spec has the file of one model, or the files of two models, of which the second has `more` additional repetitions
// of an operation. The time is then the difference divided by `more`, without the cost of passing inputs and outputs.
// With a spec that has a profile (the prefix of its files), the time is that of the nodes.
const ort = require('onnxruntime-node');
const fs = require('fs');
const path = require('path');

const spec = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'));
const threads = +process.argv[3], seconds = +process.argv[4];

function filled(type, dims) {
  const n = dims.reduce((a, b) => a * b, 1);
  if (type === 'int64') return new ort.Tensor('int64', new BigInt64Array(n).fill(1n), dims);
  if (type === 'int32') return new ort.Tensor('int32', new Int32Array(n).fill(1), dims);
  if (type === 'bool') return new ort.Tensor('bool', new Uint8Array(n).fill(1), dims);
  const data = type === 'float64' ? new Float64Array(n) : new Float32Array(n);
  for (let i = 0; i < n; i++) data[i] = 2 * Math.random() - 1;
  return new ort.Tensor(type, data, dims);
}

const now = () => Number(process.hrtime.bigint()) / 1e6;

// The time of a session's nodes in a run from ONNX Runtime's profile, without the operators in spec.aside: the mean of
// the faster half of the runs.
function ofNodes(session) {
  session.endProfiling();
  const [folder, begin] = [path.dirname(spec.profile), path.basename(spec.profile) + '_'];
  const runs = [];
  let us = 0;
  for (const name of fs.readdirSync(folder).filter((x) => x.startsWith(begin) && x.endsWith('.json'))) {
    const file = path.join(folder, name);
    for (const e of JSON.parse(fs.readFileSync(file, 'utf8'))) {
      if (e.name.endsWith('_kernel_time') && !spec.aside.includes(e.args.op_name)) us += e.dur;
      if (e.name === 'model_run') {
        runs.push(us);
        us = 0;
      }
    }
    fs.unlinkSync(file);
  }
  const least = runs.sort((a, b) => a - b).slice(0, (runs.length + 1) >> 1);
  return least.reduce((a, b) => a + b, 0) / least.length / 1e3;
}

async function median(file, feeds, budget) {
  const session = await ort.InferenceSession.create(file, {
    executionProviders: ['cpu'], intraOpNumThreads: threads, interOpNumThreads: 1,
    graphOptimizationLevel: spec.optimise ? 'all' : 'disabled',
    enableProfiling: Boolean(spec.profile), profileFilePrefix: spec.profile || '',
  });
  for (let i = 0; i < 2; i++) await session.run(feeds);
  const times = [], end = now() + budget;
  while (times.length < 3 || now() < end) {
    const t = now();
    await session.run(feeds);
    times.push(now() - t);
  }
  const nodes = spec.profile && ofNodes(session);
  await session.release();
  if (nodes) return nodes;
  times.sort((a, b) => a - b);
  return times[times.length >> 1];
}

(async () => {
  const feeds = {};
  for (const [name, i] of Object.entries(spec.inputs)) feeds[name] = filled(i.dtype, i.shape);
  const times = [];
  for (const file of spec.files) times.push(await median(file, feeds, 1000 * seconds / spec.files.length));
  const ms = times.length === 1 ? times[0] : (times[1] - times[0]) / spec.more;
  console.log(JSON.stringify({ ms }));
})();
