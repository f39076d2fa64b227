// Runs a model once with ONNX Runtime: `node ort.js SPEC.json` reads {"model", "data", "out", "inputs"}; inputs are
// [name, type, dims, offset, bytes] in the file data. It writes the outputs to the file out, and prints them as a list
// of the same form. Optional are "level" of optimization, "optimized" (the file for the optimized model), "threads", and
// "seconds" of further runs, whose median in milliseconds is printed before the list.
const ort = require('onnxruntime-node');
const fs = require('fs');

const spec = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'));
const arrays = { float32: Float32Array, float64: Float64Array, int64: BigInt64Array, int32: Int32Array,
  uint8: Uint8Array, uint16: Uint16Array, int16: Int16Array, int8: Int8Array, bool: Uint8Array };

(async () => {
  const session = await ort.InferenceSession.create(spec.model, {
    executionProviders: ['cpu'], intraOpNumThreads: spec.threads || 1, interOpNumThreads: 1,
    graphOptimizationLevel: spec.level || 'disabled', logSeverityLevel: 3,
    ...(spec.optimized && { optimizedModelFilePath: spec.optimized }),
  });
  const data = fs.readFileSync(spec.data);
  const feeds = {};
  for (const [name, type, dims, offset, bytes] of spec.inputs) {
    const raw = new Uint8Array(data.subarray(offset, offset + bytes)); // a copy, which is aligned
    feeds[name] = new ort.Tensor(type, new arrays[type](raw.buffer), dims);
  }
  const results = await session.run(feeds);
  if (spec.seconds) {
    const now = () => Number(process.hrtime.bigint()) / 1e6;
    const times = [], end = now() + 1e3 * spec.seconds;
    while (times.length < 3 || now() < end) {
      const start = now();
      await session.run(feeds);
      times.push(now() - start);
    }
    console.log(times.sort((a, b) => a - b)[times.length >> 1]);
  }
  const list = [], chunks = [];
  let offset = 0;
  for (const name of Object.keys(results)) {
    const t = results[name];
    const raw = Buffer.from(t.data.buffer, t.data.byteOffset, t.data.byteLength);
    list.push([name, t.type, t.dims, offset, raw.length]);
    chunks.push(raw);
    offset += raw.length;
  }
  fs.writeFileSync(spec.out, Buffer.concat(chunks));
  console.log(JSON.stringify(list));
})().catch((e) => {
  console.error(e.message);
  process.exit(1);
});
