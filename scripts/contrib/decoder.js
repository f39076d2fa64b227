// Generates text greedily with ONNX Runtime, as examples/decode does: `node decoder.js MODEL POSITIONS TOKENS [THREADS]`.
const ort = require('onnxruntime-node');

(async () => {
  const [model, positions, tokens, threads] = [process.argv[2], ...process.argv.slice(3).map(Number)];
  const session = await ort.InferenceSession.create(model, {
    executionProviders: ['cpu'], intraOpNumThreads: threads || 0, logSeverityLevel: 3,
  });
  const feeds = { tokens: new ort.Tensor('int64', [0n], [1, 1]) };
  for (const name of session.inputNames.filter((n) => n.startsWith('past_'))) {
    feeds[name] = new ort.Tensor('float32', new Float32Array(4 * positions * 64), [1, 4, positions, 64]);
  }
  const text = [], times = [];
  for (let i = 0; i < tokens; i++) {
    feeds.seqlens_k = new ort.Tensor('int32', [positions - tokens + i], [1]);
    const from = process.hrtime.bigint();
    const results = await session.run(feeds);
    times.push(Number(process.hrtime.bigint() - from) / 1e9);
    text.push(Number(results.next.data[0]));
    feeds.tokens = results.next;
    for (const name of session.outputNames.filter((n) => n.startsWith('present_'))) {
      feeds[name.replace('present', 'past')] = results[name];
    }
  }
  console.log('tokens:', text.slice(-8).join(' '));
  times.sort((a, b) => a - b);
  const rate = (t) => (1 / t).toFixed(1);
  console.log(`${rate(times[Math.floor(times.length / 2)])} tokens/s (median), ${rate(times[0])} (fastest)`);
})().catch((e) => {
  console.error(e.message);
  process.exit(1);
});
