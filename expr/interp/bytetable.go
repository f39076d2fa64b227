package interp

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
)

// tabulate replaces the steps of a function of one byte by a lookup in a table of its 256 results. Otherwise an
// exponential of bytes, for example, would take 20 times as long. The code may have operands that it does not load.
func (p *Runner) tabulate(l *expr.Loop) {
	c := l.Code
	if len(c.In) == 0 || c.In[0].Size() != 1 || l.Scalar[0] || len(c.Out) != 1 || c.Out[0].Im != expr.None ||
		len(l.Folds) > 0 {
		return
	}
	primitive := true
	for _, i := range c.Insts {
		if primitive = primitive && i.Op.Primitive(); i.Op == expr.Load && i.A != 0 {
			return
		}
	}
	if primitive {
		return
	}
	var bytes [256]uint8
	for k := range bytes {
		bytes[k] = uint8(k)
	}
	size, results := c.Out[0].DType.Size(), unsafe.Pointer(new([256]uint64))
	operands := make([]unsafe.Pointer, len(p.elementSize))
	operands[0], operands[1] = results, unsafe.Pointer(&bytes)
	p.Run(p.NewScratch(), operands, make([]int, len(operands)), nil, len(bytes), 1)
	lookUp := [4]func(unsafe.Pointer) loop{lookUpOf[uint8], lookUpOf[uint16], lookUpOf[uint32], lookUpOf[uint64]}
	p.row, p.blocks = nil, 0
	p.body = []step{{loop: lookUp[sizeIndex(size)](results), d: place{0, 0, size}, a: place{1, 0, 1}}}
}

// lookUpOf returns the loop that looks up results of the size of U.
func lookUpOf[U word](results unsafe.Pointer) loop {
	t := (*[256]U)(results)
	return func(o operands) {
		a, dst := o.a, unsafe.Slice((*U)(o.d.p), o.n)
		for i := range dst {
			dst[i] = t[*(*uint8)(unsafe.Add(a.p, a.at))]
			a.at += a.by
		}
	}
}
