// Measures ONNX Runtime as main.go measures graphrun: `node ort.js -tokens 256 decoder.onnx`. It needs
// `npm install --ignore-scripts onnxruntime-node` in this folder, or NODE_PATH.
const ort = require('onnxruntime-node');

const flags = {lengths: 0, tokens: 0, images: 0, batch: 1, threads: 1};
let file = '';
for (let i = 2; i < process.argv.length; i++) {
  const name = process.argv[i].replace(/^-+/, '');
  if (name in flags) flags[name] = +process.argv[++i];
  else file = process.argv[i];
}
const promptLength = 32;
const arrays = {float32: Float32Array, float16: Uint16Array, int64: BigInt64Array, int32: Int32Array, bool: Uint8Array};
const one = {float16: 0x3c00, int64: 1n};

function filled(type, dims, value) {
  const n = dims.reduce((a, b) => a * b, 1);
  return new ort.Tensor(type, new arrays[type](n).fill(value), dims);
}
const ones = (type, dims) => filled(type, dims, one[type] ?? 1);
const zeros = (type, dims) => filled(type, dims, type === 'int64' ? 0n : 0);

// The generator of random numbers of main.go.
let state = 1;
const below = (n) => (state = (state * 48271) % 2147483647) % n;

const cpu = () => { const u = process.cpuUsage(); return (u.user + u.system) / 1e3; };
const first = [], repeated = [];

async function time(session, feeds) {
  const start = cpu();
  await session.run(feeds);
  const middle = cpu();
  const out = await session.run(feeds);
  first.push(middle - start);
  repeated.push(cpu() - middle);
  return out;
}

async function each(session, inputs, count, draw) {
  for (let k = 0; k < count; k++) {
    const sizes = draw(), feeds = {};
    for (const v of inputs) {
      const dims = v.shape.length === 4 ? [flags.batch, v.shape[1], ...sizes] : [flags.batch, ...sizes];
      feeds[v.name] = ones(v.type, dims);
    }
    await time(session, feeds);
  }
}

async function decode(session, inputs, tokens) {
  const feeds = {};
  const isPast = (v) => v.name.startsWith('past');
  for (const v of inputs) {
    if (!isPast(v) && v.name !== 'encoder_hidden_states') continue;
    const open = isPast(v) ? 0 : 1500;
    feeds[v.name] = zeros(v.type, v.shape.map((n, i) => i === 0 ? flags.batch : typeof n === 'number' ? n : open));
  }
  for (let step = 0, length = promptLength, total = promptLength; step < tokens; step++, length = 1, total++) {
    for (const v of inputs) {
      if (v.name === 'input_ids' || v.name === 'position_ids') feeds[v.name] = ones(v.type, [flags.batch, length]);
      if (v.name === 'attention_mask') feeds[v.name] = ones(v.type, [flags.batch, total]);
      if (v.name === 'use_cache_branch') feeds[v.name] = filled('bool', [1], step > 0 ? 1 : 0);
    }
    const out = await time(session, feeds);
    for (const v of inputs) {
      const present = out[v.name.replace('past_key_values', 'present')];
      if (isPast(v) && present && present.dims.every((n) => n > 0)) feeds[v.name] = present;
    }
  }
}

(async () => {
  const session = await ort.InferenceSession.create(file, {
    executionProviders: ['cpu'], intraOpNumThreads: flags.threads, interOpNumThreads: 1, logSeverityLevel: 3});
  const inputs = session.inputMetadata;
  if (flags.tokens) await decode(session, inputs, flags.tokens);
  else if (flags.images) await each(session, inputs, flags.images, () => [32 * (2 + below(19)), 32 * (2 + below(19))]);
  else await each(session, inputs, flags.lengths || 1, () => [1 + below(512)]);
  const median = (list) => list.slice(Math.min(2, list.length - 1)).sort((a, b) => a - b)[(list.length - Math.min(2, list.length - 1)) >> 1];
  const status = require('fs').readFileSync('/proc/self/status', 'utf8');
  console.log(JSON.stringify({first: median(first), repeated: median(repeated),
    anonymous: /RssAnon:\s*(.*)/.exec(status)[1]}));
})();
