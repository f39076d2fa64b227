// Package exec compiles a planned graph into a [Program] and runs it concurrently.
//
// Everything is decided when the program is compiled: kernels and their loops, how weights
// are packed, where every value is in one arena, which step waits for which. A run only
// loops. Its result is the same, bit for bit, for any number of workers: kernels cut
// their work by shapes alone.
//
// A Program is immutable and may be run from several goroutines at once; each run has a
// [Session] of its own.
package exec
