// Package serve answers inference requests over HTTP by the Open Inference Protocol, version 2, which KServe and
// Triton also use.
//
//	s, err := serve.Open(ctx, []string{"models"}, serve.Options{})
//	http.ListenAndServe("127.0.0.1:8000", s) // a Server is an http.Handler
//
// examples/imageserver uses it in a server with other routes, authorization and a graceful end.
//
// The routes are /v2, /v2/health/live, /v2/health/ready, /v2/models/NAME, /v2/models/NAME/ready and
// /v2/models/NAME/infer, the last three also under /v2/models/NAME/versions/VERSION. /metrics has metrics in the text
// format of Prometheus. Tensors are sent as JSON, or as bytes after the JSON (the protocol's binary extension).
//
// # Batches
//
// Requests that wait at the same time run as one batch, which is joined along the first dimension of the model's
// inputs. This dimension must be symbolic. Requests are joined only if package graph/batch proves that the rows of the
// batch do not affect each other. With [BatchExact], the default, one plan serves all batch sizes, so that the bits of
// a result do not depend on the requests that share its batch.
//
// # Models
//
// A path is a model (.onnx or .json) or a directory with NAME.onnx, NAME.json, NAME/model.onnx, NAME/model.json,
// NAME/VERSION/model.onnx or NAME/VERSION/model.json. [Server.Reload] loads changed files while the old model still
// answers requests. A file may change at any time, because the server reads files and does not map them into memory.
package serve
