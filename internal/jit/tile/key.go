package tile

import (
	"math"
	"strconv"

	"github.com/graphrun/graphrun/internal/machine"
)

// key returns the cache key of a spec's code: all fields as text. It is built without package fmt, which takes
// microseconds for each key: a plan looks up tens of tiles each time it is bound to sizes, and most of them exist.
func (s *Spec) key(cpu machine.Features) string {
	k := keyBuilder{b: append(make([]byte, 0, 256), "tile "...)}
	k.b = append(k.b, cpu.String()...)
	k.numbers(s.Size, s.Rows, s.Vectors, s.Lanes, int(s.Start), s.PrefetchDistance, s.PrefetchedLines, s.Unroll,
		int(s.Quantized), s.PackStep, s.Levels.Bits)
	k.bools(s.Bytes, s.SignedIn, s.Matrix, s.MatrixUnit, s.Words, s.Masked, s.PrefetchResult, s.Levels.Zeros)
	k.list('i', s.In)
	k.list('o', s.Out)
	k.loop('t', &s.Tiles)
	for i := range s.Loops {
		k.loop('l', &s.Loops[i])
	}
	for _, r := range s.Runs {
		k.b = append(k.b, ' ', 'r')
		k.numbers(r.In, r.Vec, r.InStep, r.VecStep, r.Terms, int(r.Rows), r.Block)
	}
	for _, f := range s.Prefetch {
		k.b = append(k.b, ' ', 'f')
		k.numbers(f.Lines, f.Every)
	}
	for _, t := range s.Epilogue {
		k.b = append(k.b, ' ', '+')
		k.numbers(int(t.Op), t.Operand)
		k.b = strconv.AppendUint(append(k.b, ' '), math.Float64bits(t.Lo), 16)
		k.b = strconv.AppendUint(append(k.b, ' '), math.Float64bits(t.Hi), 16)
	}
	return string(k.b)
}

// keyBuilder builds a key. A space precedes each number, and a letter each list and each element of a list of structs.
type keyBuilder struct{ b []byte }

func (k *keyBuilder) numbers(list ...int) {
	for _, n := range list {
		k.b = append(k.b, ' ')
		switch {
		case n == Dynamic:
			k.b = append(k.b, '*')
		case 0 <= n && n < 10: // the most frequent case
			k.b = append(k.b, byte('0'+n))
		default:
			k.b = strconv.AppendInt(k.b, int64(n), 10)
		}
	}
}

func (k *keyBuilder) bools(list ...bool) {
	for _, set := range list {
		n := 0
		if set {
			n = 1
		}
		k.numbers(n)
	}
}

func (k *keyBuilder) list(letter byte, list []int) {
	k.b = append(k.b, ' ', letter)
	for _, n := range list {
		k.numbers(n)
	}
}

func (k *keyBuilder) loop(letter byte, l *Loop) {
	k.b = append(k.b, ' ', letter)
	k.numbers(l.In, l.Vec, l.Out, l.Trips, l.Block)
}
