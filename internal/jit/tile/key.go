package tile

import (
	"math"
	"strconv"

	"github.com/graphrun/graphrun/internal/machine"
)

// key returns the cache key of a spec's code: all fields as text. Binding a plan to sizes looks up tens of tiles, and
// most tiles are already in the cache, so the key must be cheap. Package fmt would take microseconds for each key.
func (s *Spec) key(cpu machine.Features) string {
	builder := keyBuilder{text: append(make([]byte, 0, 256), "tile "...)}
	builder.text = append(builder.text, cpu.String()...)
	builder.numbers(s.ElemBytes, s.Rows, s.Vectors, s.Lanes, int(s.InitialSum), s.PrefetchDistance, s.PrefetchedLines,
		s.Unroll, int(s.Quantized), s.PackedStep, s.VecQuantization.Bits, int(s.Half))
	builder.bools(s.Int8, s.SignedIn, s.Int8Matrix, s.MatrixUnit, s.Int16, s.Masked, s.PrefetchResult,
		s.VecQuantization.HasZeroPoints)
	builder.list('i', s.In)
	builder.list('o', s.Out)
	builder.loop('t', &s.Tiles) // a Loop with the distances between the tiles of a call
	for i := range s.Loops {
		builder.loop('l', &s.Loops[i])
	}
	for _, run := range s.Runs { // after each run.Block terms, the accumulators are added to totals
		builder.text = append(builder.text, ' ', 'r')
		builder.numbers(run.In, run.Vec, run.InStep, run.VecStep, run.Terms, int(run.Rows), run.Block)
	}
	for _, prefetch := range s.Prefetch {
		builder.text = append(builder.text, ' ', 'f')
		builder.numbers(prefetch.Lines, prefetch.Every)
	}
	for _, step := range s.Epilogue {
		builder.text = append(builder.text, ' ', '+')
		builder.numbers(int(step.Op), step.Operand)
		builder.text = strconv.AppendUint(append(builder.text, ' '), math.Float64bits(step.Lower), 16)
		builder.text = strconv.AppendUint(append(builder.text, ' '), math.Float64bits(step.Upper), 16)
	}
	return string(builder.text)
}

// keyBuilder builds a key. Each number follows a space. Each list, and each element of a list of structs, begins with a
// letter that names it.
type keyBuilder struct{ text []byte }

// numbers appends numbers. [Dynamic], which stands for an argument of the call, is written as *.
func (k *keyBuilder) numbers(list ...int) {
	for _, number := range list {
		k.text = append(k.text, ' ')
		switch {
		case number == Dynamic:
			k.text = append(k.text, '*')
		case 0 <= number && number < 10: // the most frequent case
			k.text = append(k.text, byte('0'+number))
		default:
			k.text = strconv.AppendInt(k.text, int64(number), 10)
		}
	}
}

// bools appends 1 for true and 0 for false.
func (k *keyBuilder) bools(list ...bool) {
	for _, isSet := range list {
		number := 0
		if isSet {
			number = 1
		}
		k.numbers(number)
	}
}

// list appends a letter and the numbers of a list.
func (k *keyBuilder) list(letter byte, list []int) {
	k.text = append(k.text, ' ', letter)
	for _, number := range list {
		k.numbers(number)
	}
}

// loop appends a letter and the fields of a loop. After each Block iterations, the accumulators are added to totals.
func (k *keyBuilder) loop(letter byte, loop *Loop) {
	k.text = append(k.text, ' ', letter)
	k.numbers(loop.InStep, loop.VecStep, loop.OutStep, loop.Trips, loop.Block)
}
