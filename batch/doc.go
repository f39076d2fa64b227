// Package batch runs a model on many input files, with one output file for each.
//
//	inputs, err := batch.Find("images/*.jpg")
//	summary, err := batch.Run(ctx, "resnet18.onnx", inputs, "results", batch.Options{})
//
// The output of an input with the name NAME is the file DIR/NAME.npz, where DIR is the fourth argument of [Run]. The
// output file is never incomplete, because it is renamed from a temporary file. The directory DIR/.graphrun has the
// manifests. A manifest has a record for each finished input, with the digests of the model, the options, the input and
// the output. A run skips an input if its output exists and the digests are the same. A new run thus continues a killed
// run. After a kill, at most [Options.PartSize] finished inputs are computed again.
//
// # Shards
//
// The shard of an input depends only on its name and on the number of shards. Several processes, on one or several
// machines with a shared file system, each run one shard. Each process writes its own manifest and reads all
// manifests.
//
// # Failures
//
// An input that cannot be read or run is recorded with its error and does not end the run. Later runs report the
// recorded error and do not compute the input again. They compute it again if its digests differ or [Options.Retry] is
// set. An error when an output is written, such as a full disk, ends the run. All finished outputs remain.
//
// # Results
//
// Several inputs run as one batch only if two conditions hold. One plan serves all batch sizes, and it is proved that
// each result row depends only on the input row of the same index. Then the other inputs of a batch cannot change the
// bits of an output.
package batch
