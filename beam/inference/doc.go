// Package inference runs a model on the elements of an Apache Beam PCollection.
//
//	elements := inference.ReadFiles(s, "inputs/*.npz") // s is a beam.Scope
//	results := inference.Run(s, inference.Options{Model: "model.onnx"}, elements)
//	inference.WriteFiles(s, "outputs", results)
//
// # Batches
//
// An [Element] has the inputs of one run. If the inputs of the model have a symbolic first dimension (rows), the
// elements of a bundle run as one batch. Elements are joined only if a proof exists that each result row depends only
// on the input row of the same index. By default ([BatchExact]), an element is joined only if its results have the same
// bits in the batch as alone. Results then do not depend on the bundles, which differ between runs.
//
// # Workers
//
// All instances of the transform in a worker process share one program for each Options. Setup loads the model, and the
// last Teardown drops it. A worker of Beam's Go SDK keeps most instances until the worker ends. At most
// GOMAXPROCS / Options.Threads runs are active at once.
//
// # Failures
//
// [Run] fails the bundle of an element that cannot be run. [TryRun] returns such elements as a second PCollection,
// which [WriteFailures] writes to a text file.
// Runners may process an element several times. Results are the same each time, and [WriteFiles] names files after
// elements, so that a second attempt replaces a file by an equal file.
package inference
