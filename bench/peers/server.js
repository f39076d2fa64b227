// A minimal server of the Open Inference Protocol on ONNX Runtime: `node server.js MODEL.onnx PORT THREADS` serves the
// model under the name "model". It accepts float32 and int64 inputs in the binary extension only, and runs each request
// alone.
const http = require('http');
const ort = require('onnxruntime-node');

const [file, port, threads] = [process.argv[2], +process.argv[3], +process.argv[4]];
const headerKey = 'inference-header-content-length';
const datatypes = { float32: 'FP32', int64: 'INT64' };

async function readBody(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks);
}

// The inputs of a request: their data follow the JSON header in the order of the inputs.
function parseFeeds(body, headerLength) {
  const feeds = {};
  let start = headerLength;
  for (const input of JSON.parse(body.toString('utf8', 0, headerLength)).inputs) {
    const end = start + input.parameters.binary_data_size;
    const data = new Uint8Array(body.subarray(start, end)).buffer; // a copy, which is aligned
    feeds[input.name] = input.datatype === 'INT64'
      ? new ort.Tensor('int64', new BigInt64Array(data), input.shape)
      : new ort.Tensor('float32', new Float32Array(data), input.shape);
    start = end;
  }
  return feeds;
}

function respond(response, results) {
  const outputs = [], parts = [];
  for (const [name, t] of Object.entries(results)) {
    const data = Buffer.from(t.data.buffer, t.data.byteOffset, t.data.byteLength);
    outputs.push({ name, datatype: 'FP32', shape: t.dims, parameters: { binary_data_size: data.length } });
    parts.push(data);
  }
  const header = Buffer.from(JSON.stringify({ model_name: 'model', outputs }));
  response.setHeader(headerKey, header.length);
  response.end(Buffer.concat([header, ...parts]));
}

(async () => {
  const session = await ort.InferenceSession.create(file, {
    executionProviders: ['cpu'], intraOpNumThreads: threads, interOpNumThreads: 1, graphOptimizationLevel: 'all',
  });
  const inputs = session.inputMetadata.map(({ name, type }) => ({ name, datatype: datatypes[type] }));
  const metadata = JSON.stringify({ name: 'model', inputs });
  http.createServer(async (request, response) => {
    try {
      if (request.method === 'GET') return response.end(metadata);
      const body = await readBody(request);
      respond(response, await session.run(parseFeeds(body, +request.headers[headerKey])));
    } catch (e) {
      response.statusCode = 400;
      response.end(String(e));
    }
  }).listen(port, '127.0.0.1');
})();
