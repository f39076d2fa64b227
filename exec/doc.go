// Package exec compiles a planned graph to a [Program] and runs it on several workers.
//
// [Compile] makes all decisions: kernels and their loops, packed weights, the position of every value in one memory
// block (the arena), and the dependencies between steps. A run only executes these decisions. Results are
// bit-identical for any number of workers, because the order of additions depends only on shapes.
//
// A Program is immutable and may be run from several goroutines at once ([Program.Run]). Each run uses a [Session],
// which holds the memory of one run. [Options.Tracer] observes runs, and [Need] reports the memory that a run takes.
// All shapes of the graph must be known. Package internal/program runs a graph with data-dependent shapes in segments,
// which are programs of their own.
//
// A step is one kernel call. It consists of phases that run one after another, and a phase consists of independent
// chunks. Consecutive steps with enough work for several workers form a shared section. In a shared section, a worker
// takes a ready step, or chunks of a step that another worker has started. Other steps run serially on one worker.
// With several workers, memory is assigned so that a worker finds the data that it wrote in its cache (affinity).
// With one worker, chunks of consecutive steps are interleaved, so that values pass through the L2 cache (pipelined
// groups).
package exec
