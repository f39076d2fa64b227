package interp

import (
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
)

// tabulate replaces the steps of a function of one byte by a lookup in a table of its 256 results. Otherwise an
// exponential of bytes, for example, would take 20 times as long.
func (p *Runner) tabulate(l *expr.Loop) {
	c := l.Code
	if len(c.In) != 1 || c.In[0].Size() != 1 || l.Scalar[0] || len(c.Out) != 1 || c.Out[0].Im != expr.None ||
		len(l.Folds) > 0 || !slices.ContainsFunc(c.Insts, func(i expr.Inst) bool { return !i.Op.Primitive() }) {
		return
	}
	var bytes [256]uint8
	for k := range bytes {
		bytes[k] = uint8(k)
	}
	size, results := c.Out[0].DType.Size(), unsafe.Pointer(new([256]uint64))
	p.Run(p.NewScratch(), []unsafe.Pointer{results, unsafe.Pointer(&bytes)}, []int{0, 0}, nil, len(bytes), 1)
	lookUp := [4]func(unsafe.Pointer) loop{lookUpOf[uint8], lookUpOf[uint16], lookUpOf[uint32], lookUpOf[uint64]}
	p.row, p.blocks = nil, 0
	p.body = []step{{loop: lookUp[sizeIndex(size)](results), d: place{0, 0, size}, a: place{1, 0, 1}}}
}

// lookUpOf returns the loop that looks up results of the size of U.
func lookUpOf[U word](results unsafe.Pointer) loop {
	t := (*[256]U)(results)
	return func(o operands) { each1(&o, func(x uint8) U { return t[x] }) }
}
