package tile_test

import (
	"strings"
	"testing"

	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
)

// TestRefused asks for what there is no code for.
func TestRefused(t *testing.T) {
	good := func() *tile.Spec {
		return &tile.Spec{Size: 4, Rows: 6, Vectors: 2, Runs: []tile.Run{{Terms: 5, InStep: 4, VecStep: 64}}}
	}
	if _, err := tile.Compile(good(), machine.AVX2); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(s *tile.Spec){
		"elements of 2 bytes":          func(s *tile.Spec) { s.Size = 2 },
		"in 16 registers":              func(s *tile.Spec) { s.Rows = 7 },
		"9 lanes of 8":                 func(s *tile.Spec) { s.Lanes = 9 },
		"5 and 0 places of 6":          func(s *tile.Spec) { s.In = make([]int, 5) },
		"that a call tells":            func(s *tile.Spec) { s.Rows = 16; s.Vectors = 1 },
		"no start 4":                   func(s *tile.Spec) { s.Start = 4 },
		"-1 terms a turn":              func(s *tile.Spec) { s.Unroll = -1 },
		"4 loops":                      func(s *tile.Spec) { s.Loops = make([]tile.Loop, 4) },
		"loop 0 is":                    func(s *tile.Spec) { s.Loops = []tile.Loop{{}} },
		"operation 0 at the end":       func(s *tile.Spec) { s.Tail = []tile.Tail{{Operand: -1}} },
		"run 0 of 2 is told":           func(s *tile.Spec) { s.Runs = []tile.Run{{Terms: tile.Dynamic}, {Terms: 1}} },
		"run 0 is {In:0 Vec:0":         func(s *tile.Spec) { s.Runs[0].Rows = 64 },
		"bytes of elements of 8":       func(s *tile.Spec) { s.Rows, s.Bytes, s.Size = 5, true, 8 },
		"levels 1 of sums":             func(s *tile.Spec) { s.Levels = tile.Unsigned },
		"words of elements of 8":       func(s *tile.Spec) { s.Rows, s.Words, s.Size = 5, true, 8 },
		"1 rows are asked for besides": func(s *tile.Spec) { s.Fetch = []tile.Fetch{{Lines: 1, Every: 8}} },
		"row 0 that is asked for": func(s *tile.Spec) {
			s.Runs[0].Terms, s.Fetch = tile.Dynamic, []tile.Fetch{{Lines: 1, Every: 12}}
		},
		"in 1 runs and 1 loops": func(s *tile.Spec) { s.Keep, s.Loops = 64, []tile.Loop{{Turns: 2}} },
		"blocks of terms":       func(s *tile.Spec) { s.Runs[0].Block = 3 },
		"loop 0 is {In:0":       func(s *tile.Spec) { s.Loops = []tile.Loop{{Turns: 1, Block: -1}} },
		"rows of the broadcast operand: a distance of 1073741824": func(s *tile.Spec) {
			s.In = []int{0, 1 << 30, 0, 0, 0, 0}
		},
		"rows of the result: a distance of -4294967292": func(s *tile.Spec) {
			s.Out = []int{0, 4 - 1<<32, 0, 0, 0, 0}
		},
		"tiles: a distance of 4294967296": func(s *tile.Spec) { s.Tiles.In = 1 << 32 },
		"loop 0 does not fit the code: {In:0 Vec:8589934592": func(s *tile.Spec) {
			s.Loops = []tile.Loop{{Turns: 1, Vec: 1 << 33}}
		},
		"run 0 does not fit the code: {In:4611686018427387904": func(s *tile.Spec) { s.Runs[0].In = 1 << 62 },
		"run 0 does not fit the code: {In:0 Vec:0 InStep:65536": func(s *tile.Spec) {
			s.Runs[0].InStep, s.Runs[0].Terms = 1<<16, 1<<16
		},
		"run 1 does not fit the code: {In:-1": func(s *tile.Spec) {
			s.Runs = []tile.Run{{In: 1 << 29, InStep: 1 << 28, Terms: 3}, {In: 1<<16 - 1<<30, Terms: 1}}
		},
		"no machine code for por": nil,
	} {
		s, isa := good(), machine.AVX2
		if change != nil {
			change(s)
		} else {
			isa = machine.Portable
		}
		if s.Rows == 16 {
			isa = machine.AVX512
		}
		if _, err := tile.Compile(s, isa); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("want %q, not %v", what, err)
		}
	}
}
