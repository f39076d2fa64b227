package gemm

import (
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
)

// Repeated is a product of operands that stay where they are, ready to be computed again and again: of a small one Run
// takes a good part of the time to find where things are. It belongs to one goroutine, and must not be copied.
type Repeated struct {
	args jit.Args
	code *jit.Func
}

// Repeat prepares a product with args. It reports false where the product is more than one call of machine code, and
// is to be run as any other.
func (p *Plan[T]) Repeat(r *Repeated, args *Args[T]) bool {
	s := &p.spec
	if !p.across || p.mTiles*p.nTiles > 1 || p.kc < s.K || p.b.packs() || s.N%p.b.w > 0 || s.M*s.N*s.K > callMACs {
		return false
	}
	x := exec[T]{Plan: p, pa: args.A, pb: args.B, pc: args.C}
	if p.swapped {
		x.pa, x.pb = x.pb, x.pa
	}
	var a, b feed
	x.locate(&a, &p.a, x.pa, nil, nil, nil, 0, s.K, 0, s.M)
	x.locate(&b, &p.b, x.pb, nil, nil, nil, 0, s.K, 0, s.N)
	t := tileState[T]{exec: &x, kc: s.K, first: true}
	t.operands(&r.args, &a, &b, 0, p.b.w)
	r.args.Step[tile.VecTile] = b.at(p.b.w) * p.set.size
	n := s.N / p.b.w
	r.code = t.placeTiles(&r.args, &a, stack{0, s.M, n, 0}, firstBlock, plainly, 0, n, 0, p.b.w)
	return true
}

// Run computes the product once more, of what is in its operands now.
func (r *Repeated) Run() {
	if err := r.code.Call(&r.args); err != nil {
		panic(err) // the plan has linked it
	}
}

// Release lets go of the operands and of the plan.
func (r *Repeated) Release() {
	clear(r.args.Ptr[:])
	r.code = nil
}
