package tile_test

import (
	"math"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
)

// TestInvalid compiles invalid specs.
func TestInvalid(t *testing.T) {
	good := func() *tile.Spec {
		return &tile.Spec{ElemBytes: 4, Rows: 6, Vectors: 2, Runs: []tile.Run{{Terms: 5, InStep: 4, VecStep: 64}}}
	}
	if _, err := tile.Compile(good(), machine.AVX2); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(s *tile.Spec){
		"ElemBytes is 2":                 func(s *tile.Spec) { s.ElemBytes = 2 },
		"fit into 16 registers":          func(s *tile.Spec) { s.Rows = 7 },
		"Lanes is 9":                     func(s *tile.Spec) { s.Lanes = 9 },
		"In has 5 offsets and Out has 0": func(s *tile.Spec) { s.In = make([]int, 5) },
		"Rows is 16: want at most 15":    func(s *tile.Spec) { s.Rows = 16; s.Vectors = 1 },
		"InitialSum is 4":                func(s *tile.Spec) { s.InitialSum = 4 },
		"Unroll is -1":                   func(s *tile.Spec) { s.Unroll = -1 },
		"there are 4 Loops":              func(s *tile.Spec) { s.Loops = make([]tile.Loop, 4) },
		"loop 0 is {InStep:0 VecStep:0":  func(s *tile.Spec) { s.Loops = []tile.Loop{{}} },
		"epilogue step 0 is {Op:0":       func(s *tile.Spec) { s.Epilogue = []tile.EpilogueStep{{Operand: -1}} },
		"run 0 has Dynamic fields": func(s *tile.Spec) {
			s.Runs = []tile.Run{{Terms: tile.Dynamic},
				{Terms: 1}}
		},
		"run 0 is {In:0 Vec:0":              func(s *tile.Spec) { s.Runs[0].Rows = 64 },
		"Int8 requires elements of 4 bytes": func(s *tile.Spec) { s.Rows, s.Int8, s.ElemBytes = 5, true, 8 },
		"Quantized is 1":                    func(s *tile.Spec) { s.Quantized = tile.Unsigned },
		"excludes Int8: ElemBytes is 8":     func(s *tile.Spec) { s.Rows, s.Int16, s.ElemBytes = 5, true, 8 },
		"Prefetch lists 1 operands":         func(s *tile.Spec) { s.Prefetch = []tile.Prefetch{{Lines: 1, Every: 8}} },
		"Prefetch[0] is {Lines:1 Every:12}": func(s *tile.Spec) {
			s.Runs[0].Terms, s.Prefetch = tile.Dynamic, []tile.Prefetch{{Lines: 1, Every: 12}}
		},
		"1 runs and 1 loops":       func(s *tile.Spec) { s.PackedStep, s.Loops = 64, []tile.Loop{{Trips: 2}} },
		"blocks of terms":          func(s *tile.Spec) { s.Runs[0].Block = 3 },
		"Block:-1}: want constant": func(s *tile.Spec) { s.Loops = []tile.Loop{{Trips: 1, Block: -1}} },
		"rows of the broadcast operand: the distance is 1073741824": func(s *tile.Spec) {
			s.In = []int{0, 1 << 30, 0, 0, 0, 0}
		},
		"rows of the result: the distance is -4294967292": func(s *tile.Spec) {
			s.Out = []int{0, 4 - min(1<<32, math.MaxInt), 0, 0, 0, 0}
		},
		"tiles: the distance is 4294967296": func(s *tile.Spec) { s.Tiles.InStep = min(1<<32, math.MaxInt) },
		"loop 0 is {InStep:0 VecStep:8589934592": func(s *tile.Spec) {
			s.Loops = []tile.Loop{{Trips: 1, VecStep: min(1<<33, math.MaxInt)}}
		},
		"run 0 is {In:4611686018427387904": func(s *tile.Spec) {
			s.Runs[0].In = min(1<<62, math.MaxInt)
		},
		"run 0 is {In:0 Vec:0 InStep:65536": func(s *tile.Spec) {
			s.Runs[0].InStep, s.Runs[0].Terms = 1<<16, 1<<16
		},
		"run 1 is {In:-1": func(s *tile.Spec) {
			s.Runs = []tile.Run{{In: 1 << 29, InStep: 1 << 28, Terms: 3}, {In: 1<<16 - 1<<30, Terms: 1}}
		},
		"of 16-bit words on arm64+dotprod":                      func(s *tile.Spec) { s.Rows, s.Int16 = 5, true },
		"with Int8, the value of ReadsSigned for arm64+dotprod": func(s *tile.Spec) { s.Rows, s.Int8 = 5, true },
		"the value of ReadsSigned for avx2": func(s *tile.Spec) {
			s.Rows, s.Int8, s.SignedIn = 5, true, true
		},
		"packing; features: arm64+dotprod": func(s *tile.Spec) {
			s.Rows, s.Int8, s.SignedIn, s.Int8Matrix = 5, true, true, true
		},
		"bytes or 16-bit words on arm64": func(s *tile.Spec) { s.Rows, s.Int16 = 5, true },
		"it must be constant on arm64":   func(s *tile.Spec) { s.Lanes = tile.Dynamic },
		"there is no code for por":       nil,
	} {
		s, cpu := good(), machine.AVX2
		if change != nil {
			change(s)
		} else {
			cpu = machine.Portable
		}
		if s.Rows == 16 {
			cpu = machine.AVX512
		}
		if strings.Contains(what, "arm64") {
			cpu = machine.NEON
		}
		if strings.Contains(what, "dotprod") {
			cpu |= machine.DotBytes128
		}
		if _, err := tile.Compile(s, cpu); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %q", err, what)
		}
	}
}
