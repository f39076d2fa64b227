package tile

import (
	"math"
	"strconv"

	"github.com/graphrun/graphrun/internal/machine"
)

// key tells specs apart that have other code: all that a spec says, in text. Plans ask for tens of tiles each time they
// are bound to sizes, most of which there are: to find them must cost little, and package fmt takes microseconds.
func (s *Spec) key(isa machine.ISA) string {
	k := key{b: append(make([]byte, 0, 256), "tile "...)}
	k.b = append(k.b, isa.String()...)
	k.numbers(s.Size, s.Rows, s.Vectors, s.Lanes, int(s.Start), s.Near, s.Ahead, s.Unroll,
		int(s.Levels), s.Keep)
	k.truths(s.Bytes, s.Unit, s.Words, s.Masked, s.Touch)
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
	for _, f := range s.Fetch {
		k.b = append(k.b, ' ', 'f')
		k.numbers(f.Lines, f.Every)
	}
	for _, t := range s.Tail {
		k.b = append(k.b, ' ', '+')
		k.numbers(int(t.Op), t.Operand)
		k.b = strconv.AppendUint(append(k.b, ' '), math.Float64bits(t.Lo), 16)
		k.b = strconv.AppendUint(append(k.b, ' '), math.Float64bits(t.Hi), 16)
	}
	return string(k.b)
}

// key is a text that grows: numbers with a space before each, and letters before what there may be any number of.
type key struct{ b []byte }

func (k *key) numbers(list ...int) {
	for _, n := range list {
		k.b = append(k.b, ' ')
		switch {
		case n == Dynamic:
			k.b = append(k.b, '*')
		case 0 <= n && n < 10: // most are
			k.b = append(k.b, byte('0'+n))
		default:
			k.b = strconv.AppendInt(k.b, int64(n), 10)
		}
	}
}

func (k *key) truths(list ...bool) {
	for _, is := range list {
		n := 0
		if is {
			n = 1
		}
		k.numbers(n)
	}
}

func (k *key) list(letter byte, list []int) {
	k.b = append(k.b, ' ', letter)
	for _, n := range list {
		k.numbers(n)
	}
}

func (k *key) loop(letter byte, l *Loop) {
	k.b = append(k.b, ' ', letter)
	k.numbers(l.In, l.Vec, l.Out, l.Turns, l.Block)
}
