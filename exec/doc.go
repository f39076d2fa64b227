// Package exec compiles a planned graph into a [Program] and runs it on several workers.
//
// [Compile] makes all decisions: kernels and their loops, packed weights, the position of every value in one arena, and
// the dependencies between steps. A run only executes them. Results are bit-identical for any number of workers,
// because kernels cut their work into chunks by shapes alone.
//
// A Program is immutable and may be run from several goroutines at once ([Program.Run]); each run has a [Session],
// which holds its memory. A [Runner] runs any graph: one with data-dependent shapes is executed in segments, which are
// planned and compiled when their shapes are known. [Options.Tracer] observes runs, and [Need] reports the memory that
// a run takes.
//
// Consecutive steps that are worth sharing form a shared section, in which workers take ready steps, or chunks of a
// step's phases; other steps run serially on one worker. With several workers, memory is assigned so that a worker
// finds in its cache what it wrote (affinity). With one worker, chunks of consecutive steps are interleaved, so that
// values pass through the L2 cache (pipelined groups).
package exec
