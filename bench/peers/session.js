// Measures the creation of an ONNX Runtime session: `node session.js MODEL.onnx THREADS` prints milliseconds, and the
// memory of the process in MiB before it, after it, and after ten runs. Symbolic sizes of inputs are 1.
const ort = require('onnxruntime-node');
const fs = require('fs');

const [file, threads] = [process.argv[2], +process.argv[3]];

function memory() {
  const status = fs.readFileSync('/proc/self/status', 'utf8');
  const of = (key) => +(status.match(new RegExp(key + ':\\s+(\\d+)'))[1] / 1024).toFixed(1);
  return { resident: of('VmRSS'), most: of('VmHWM') };
}

function filled(type, dims) {
  const n = dims.reduce((a, b) => a * b, 1);
  if (type === 'int64') return new ort.Tensor('int64', new BigInt64Array(n).fill(1n), dims);
  if (type === 'int32') return new ort.Tensor('int32', new Int32Array(n).fill(1), dims);
  return new ort.Tensor('float32', new Float32Array(n).fill(0.5), dims);
}

(async () => {
  const before = memory(), start = process.hrtime.bigint();
  const session = await ort.InferenceSession.create(file, {
    executionProviders: ['cpu'], intraOpNumThreads: threads, interOpNumThreads: 1, graphOptimizationLevel: 'all',
  });
  const ms = Number(process.hrtime.bigint() - start) / 1e6, made = memory();
  const feeds = {};
  for (const i of session.inputMetadata) {
    feeds[i.name] = filled(i.type, i.shape.map((d) => (typeof d === 'number' ? d : 1)));
  }
  for (let i = 0; i < 10; i++) await session.run(feeds);
  console.log(JSON.stringify({ ms: +ms.toFixed(1), before, made, after: memory() }));
})();
