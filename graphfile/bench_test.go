package graphfile_test

import (
	"fmt"
	"testing"
)

// BenchmarkLoadInfer reads and infers chains of adds: the time must be linear in the number of nodes.
func BenchmarkLoadInfer(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint("nodes=", n), func(b *testing.B) {
			text := chain(n, false)
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				mustLoad(b, text)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/node")
		})
	}
}

// BenchmarkSort loads a chain whose nodes are in reverse order.
func BenchmarkSort(b *testing.B) {
	for _, n := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprint("reversed/nodes=", n), func(b *testing.B) {
			text := chain(n, true)
			for b.Loop() {
				mustLoad(b, text)
			}
		})
	}
}
