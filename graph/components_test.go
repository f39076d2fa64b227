package graph

import (
	"math/rand/v2"
	"testing"
)

// TestComponents compares components and shortest cycles with the distances of all pairs of nodes.
func TestComponents(t *testing.T) {
	cyclic := 0
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 0))
		next := make([][]int, 1+r.IntN(9))
		for from := range next {
			for to := range next {
				if from != to && r.IntN(2*len(next)) < 3 {
					next[from] = append(next[from], to)
				}
			}
		}
		far := distances(next)
		component := components(next)
		for a := range next {
			for b := range next {
				together := a == b || far[a][b] < unreachable && far[b][a] < unreachable
				if together != (component[a] == component[b]) {
					t.Fatalf("%v: components %v, nodes %d and %d", next, component, a, b)
				}
			}
			cycle := shortestCycle(next, component, a)
			if want := far[a][a]; len(cycle) != want%unreachable {
				t.Fatalf("%v: cycle %v through %d, want %d nodes", next, cycle, a, want)
			}
			if len(cycle) > 0 {
				cyclic++
			}
		}
	}
	if cyclic == 0 {
		t.Error("no graph has a cycle")
	}
}

const unreachable = 1 << 20

// distances returns the lengths of the shortest paths of at least one edge.
func distances(next [][]int) [][]int {
	far := make([][]int, len(next))
	for from := range next {
		far[from] = make([]int, len(next))
		for to := range far[from] {
			far[from][to] = unreachable
		}
		for _, to := range next[from] {
			far[from][to] = 1
		}
	}
	for via := range next {
		for from := range next {
			for to := range next {
				far[from][to] = min(far[from][to], far[from][via]+far[via][to], unreachable)
			}
		}
	}
	return far
}
