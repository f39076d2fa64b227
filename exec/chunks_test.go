//go:build !386 && !arm

package exec

import (
	"testing"

	"github.com/graphrun/graphrun/graph"
)

// TestChunksThatAreTooManyAreJoined: 32 bits count the chunks of a phase, so those of one with more run several at a
// time, each once and in order.
func TestChunksThatAreTooManyAreJoined(t *testing.T) {
	const all = 5<<31 + 3
	var ran []int
	k := joinChunks(&graph.Kernel{Scratch: 7, Phases: []graph.Phase{{Chunks: 3}, {Chunks: all, Run: func(_ *graph.Mem,
		chunk int) error {
		ran = append(ran, chunk)
		return nil
	}, Flow: &graph.Flow{FinalElements: func(chunk int) int { return chunk },
		NeededElements: func(chunk int) int { return chunk }}}}}, 2)
	if k.Scratch != 7 || k.Phases[0].Chunks != 3 {
		t.Fatalf("countable changes what can be counted: %+v", k)
	}
	ph := k.Phases[1]
	if ph.Chunks > maxChunks || ph.Chunks < maxChunks/2 {
		t.Fatalf("%d chunks become %d", int(all), ph.Chunks)
	}
	next := 0
	for _, chunk := range []int{0, 1, ph.Chunks / 2, ph.Chunks - 1} {
		ran = nil
		if err := ph.Run(nil, chunk); err != nil {
			t.Fatal(err)
		}
		if chunk <= 1 && ran[0] != next || ran[0] > all-1 || len(ran) == 0 {
			t.Fatalf("chunk %d runs %v", chunk, ran)
		}
		next = ran[len(ran)-1] + 1
		if ph.Flow.FinalElements(chunk) != next-1 || ph.Flow.NeededElements(chunk) != next-1 {
			t.Fatalf("chunk %d ends with %d, its flow says %d and %d", chunk, next-1, ph.Flow.FinalElements(chunk),
				ph.Flow.NeededElements(chunk))
		}
	}
	if next != all {
		t.Fatalf("the last chunk ends with %d of %d", next, int(all))
	}
}

// TestRangesOfChunks: a phase whose chunks are faster together has a range for each worker.
func TestRangesOfChunks(t *testing.T) {
	for _, workers := range []int{1, 2, 5, 40} {
		const all = 13
		var ran []int
		k := joinChunks(&graph.Kernel{Phases: []graph.Phase{{Chunks: all, Run: func(_ *graph.Mem, chunk int) error {
			ran = append(ran, chunk)
			return nil
		}, RunRange: func(_ *graph.Mem, begin, end int) error {
			for chunk := begin; chunk < end; chunk++ {
				ran = append(ran, chunk)
			}
			return nil
		}}}}, workers)
		for chunk := range k.Phases[0].Chunks {
			if err := k.Phases[0].Run(nil, chunk); err != nil {
				t.Fatal(err)
			}
		}
		if len(ran) != all || ran[0] != 0 || ran[all-1] != all-1 || k.Phases[0].Chunks > workers {
			t.Fatalf("%d workers: %d chunks run %v", workers, k.Phases[0].Chunks, ran)
		}
	}
}
