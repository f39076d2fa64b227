package axes

import (
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// BlockLen is the maximum number of elements of a block.
const BlockLen = 1024

// BlockBytes is the size in bytes of a block of the largest dtype (16 bytes per element).
const BlockBytes = BlockLen * 16

// Loader copies runs of an operand into contiguous blocks of the loop's dtype.
type Loader struct {
	Size          int                // size of an element in the loop, in bytes
	Direct        bool               // no conversion: contiguous runs are used in place
	first, second tensor.ConvertFunc // the conversions in order; second is nil if there is only one conversion
	middleSize    int                // size in bytes of an element between the two conversions
}

// NewLoader returns a Loader that converts elements of dtype `from` to dtype cast and then to dtype `to`. The
// conversion to cast may round. If cast is `from` or `to`, there is only one conversion. NewLoader panics for an
// invalid dtype.
func NewLoader(from, cast, to tensor.DType) Loader {
	loader := Loader{Size: to.Size(), first: tensor.Converter(to, from), Direct: from == to && cast == to}
	if from != cast && cast != to {
		loader.first, loader.second = tensor.Converter(cast, from), tensor.Converter(to, cast)
		loader.middleSize = cast.Size()
	}
	return loader
}

// Load copies n <= BlockLen elements from src, with a stride of step bytes, to dst. It checks no bounds: dst must have
// room for n elements of Size bytes, and tmp for a block.
func (l *Loader) Load(dst, tmp, src unsafe.Pointer, step, n int) {
	if l.second == nil {
		l.first(dst, src, l.Size, step, n)
		return
	}
	l.first(tmp, src, l.middleSize, step, n)
	l.second(dst, tmp, l.Size, l.middleSize, n)
}

// Run returns n elements from src as a block. If no copy is necessary, it returns src itself. Otherwise it copies the
// elements to buf and returns buf.
func (l *Loader) Run(buf, tmp, src unsafe.Pointer, step, n int) unsafe.Pointer {
	if l.Direct && (step == l.Size || n == 1) {
		return src
	}
	l.Load(buf, tmp, src, step, n)
	return buf
}
