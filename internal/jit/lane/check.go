package lane

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/tensor"
)

// Check returns an error if the block is invalid: an instruction uses a value that is not computed before, dtypes or
// widths of masks do not agree, or an instruction follows a store.
func (b *Block) Check() error {
	stored := false
	for v, i := range b.Insts {
		err := b.checkInst(Value(v), &i)
		if stored = stored || i.Op == Store; stored && i.Op != Store {
			err = errors.New("after a store")
		}
		if err != nil {
			return fmt.Errorf("lane: v%d (%v): %w", v, i.Op, err)
		}
	}
	return nil
}

// Check returns an error if the loop is invalid.
func (l *Loop) Check() error {
	if err := l.Block.Check(); err != nil {
		return err
	}
	for k, f := range l.Folds {
		if f.V < 0 || int(f.V) >= len(l.Insts) || f.Ptr < 0 || f.Ptr >= len(l.Ptrs) {
			return fmt.Errorf("lane: fold %d: there is no v%d or no pointer %d", k, f.V, f.Ptr)
		}
		t := l.Type(f.V)
		if p := l.Ptrs[f.Ptr]; p.Kind != Accumulator || t != memoryType(p.D) || !f.Op.Folds(t.D) {
			return fmt.Errorf("lane: fold %d: %v of %v into %v", k, f.Op, t, p)
		}
	}
	return nil
}

func (b *Block) checkInst(v Value, i *Inst) error {
	if i.Op == Invalid || i.Op >= numOps {
		return errors.New("unknown operation")
	}
	for _, u := range i.Uses() {
		if u < 0 || u >= v {
			return fmt.Errorf("uses v%d, which is not an earlier value", u)
		}
		if b.Insts[u].Op == Store {
			return fmt.Errorf("uses v%d, a store", u)
		}
	}
	if i.Op != Store {
		if err := checkType(i.Type); err != nil {
			return err
		}
	}
	if i.Op == Load || i.Op == Store {
		return b.checkAccess(i)
	}
	return b.checkTypes(i)
}

func checkType(t Type) error {
	switch {
	case !reals.Has(t.D):
		return fmt.Errorf("dtype %v", t.D)
	case t.D == tensor.Bool && t.Mask != 1 && t.Mask != 2 && t.Mask != 4 && t.Mask != 8:
		return fmt.Errorf("a mask of %d bytes", t.Mask)
	case t.D != tensor.Bool && t.Mask != 0:
		return fmt.Errorf("%v with a mask", t.D)
	}
	return nil
}

// checkAccess checks a load or a store.
func (b *Block) checkAccess(i *Inst) error {
	if i.Ptr < 0 || int(i.Ptr) >= len(b.Ptrs) {
		return fmt.Errorf("there is no pointer %d", i.Ptr)
	}
	p := b.Ptrs[i.Ptr]
	part := memoryType(p.D.ToReal())
	if i.Op == Load {
		if p.Kind != Operand && p.Kind != RowOperand || i.Type != part || i.Imm > 1 || i.Imm == 1 && !p.D.IsComplex() {
			return fmt.Errorf("part %d of %v at %v", i.Imm, i.Type, p)
		}
		return nil
	}
	if p.Kind != Output || i.Type != memoryType(p.D) || p.D.IsComplex() != (i.B != None) {
		return fmt.Errorf("%v at %v", i.Type, p)
	}
	for _, u := range i.Uses() {
		if b.Type(u) != part {
			return fmt.Errorf("%v at %v", b.Type(u), p)
		}
	}
	return nil
}

// checkTypes checks the types of an instruction that accesses no memory.
func (b *Block) checkTypes(i *Inst) error {
	if i.Op == Const {
		if n := 8 * i.Type.D.Size(); n < 64 && i.Imm>>n != 0 || i.Type.D == tensor.Bool && i.Imm > 1 {
			return fmt.Errorf("%#x is not a value of %v", i.Imm, i.Type.D)
		}
		return nil
	}
	uses := i.Uses()
	values := uses // of equal type
	if i.Op == Select {
		values = uses[1:]
	}
	from := b.Type(values[0])
	ok := Ops[i.Op].On.Has(from.D)
	for _, u := range values {
		ok = ok && b.Type(u) == from
	}
	switch i.Op {
	case Remask:
		ok = ok && i.Type.D == tensor.Bool
	case Bits:
		ok = ok && Ops[Bits].On.Has(i.Type.D) && i.Type.Size() == from.Size()
	case Convert:
		ok = ok && (from.D != tensor.Bool && i.Type.D != tensor.Bool || i.Type.Size() == from.Size())
	case Eq, Ne, Lt, Le:
		ok = ok && i.Type == Type{D: tensor.Bool, Mask: uint8(from.Size())}
	case Select:
		ok = ok && i.Type == from && b.Type(i.A) == Type{D: tensor.Bool, Mask: uint8(from.Size())}
	case Lookup:
		ok = ok && i.Type == from && i.Table != nil
	default:
		ok = ok && i.Type == from
	}
	if !ok {
		return fmt.Errorf("%v of %v gives %v", i.Op, from, i.Type)
	}
	return nil
}
