package ir

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/internal/jit/lane"
	"github.com/graphrun/graphrun/tensor"
)

// legal has the operations of package lane that kernels may contain. Lowering expands the other operations.
var legal = [64]bool{lane.Const: true, lane.Convert: true, lane.Bits: true, lane.Add: true, lane.Sub: true,
	lane.Mul: true, lane.Div: true, lane.FMA: true, lane.Sqrt: true, lane.Floor: true, lane.Ceil: true, lane.Trunc: true,
	lane.Rint: true, lane.And: true, lane.Or: true, lane.Xor: true, lane.Not: true, lane.Shl: true, lane.Shr: true,
	lane.Eq: true, lane.Ne: true, lane.Lt: true, lane.Le: true, lane.Select: true, lane.Lookup: true}

// registers has the dtypes that a value may have.
var registers = map[tensor.DType]bool{tensor.Bool: true, tensor.Int32: true, tensor.Uint32: true, tensor.Int64: true,
	tensor.Uint64: true, tensor.Float32: true, tensor.Float64: true}

// checker checks the instructions of a kernel in order.
type checker struct {
	*Kernel
	open    []Op   // the Loop, If and Else around an instruction
	visible []bool // indexed by value: whether its block is open
	opened  []int  // indexed by open block: its first instruction
}

// Check returns an error if the kernel is invalid: a value is used outside of its block or before it is computed,
// dtypes do not agree, an operation or a dtype is not one of kernels, or blocks are not nested.
func (k *Kernel) Check() error {
	c := &checker{Kernel: k, visible: make([]bool, len(k.Insts))}
	if k.GroupSize < 1 || k.Params < 0 {
		return fmt.Errorf("ir: a kernel needs a positive group size and no negative number of parameters, not %d and %d",
			k.GroupSize, k.Params)
	}
	for v := range k.Insts {
		if err := c.inst(v, &k.Insts[v]); err != nil {
			return fmt.Errorf("ir: v%d (%v): %w", v, k.Insts[v].Op, err)
		}
	}
	if len(c.open) > 0 {
		return errors.New("ir: a block has no End")
	}
	return nil
}

func (c *checker) inst(v int, i *Inst) error {
	for _, u := range i.Uses() {
		if u < 0 || int(u) >= v || !c.visible[u] || !c.Insts[u].Op.HasResult() {
			return fmt.Errorf("uses v%d, which is not an earlier value of this block or a block around it", u)
		}
	}
	if err := c.block(v, i.Op); err != nil {
		return err
	}
	c.visible[v] = true
	if i.Op.IsLaneOp() {
		return c.scalar(i)
	}
	return c.device(i)
}

// block opens and closes blocks.
func (c *checker) block(v int, op Op) error {
	last := len(c.open) - 1
	switch op {
	case Loop, If:
		c.open, c.opened = append(c.open, op), append(c.opened, v)
	case Break:
		if last < 0 || c.open[last] != Loop {
			return errors.New("the innermost block is not a loop")
		}
	case Else, End:
		if last < 0 || op == Else && c.open[last] != If {
			return errors.New("there is no open block")
		}
		for k := c.opened[last] + 1; k < v; k++ {
			c.visible[k] = false
		}
		if c.open[last] = op; op == End {
			c.open, c.opened = c.open[:last], c.opened[:last]
		}
	}
	return nil
}

// types checks the number and the dtypes of operands.
func (c *checker) types(i *Inst, want ...tensor.DType) error {
	uses := i.Uses()
	if len(uses) != len(want) {
		return fmt.Errorf("%d operands instead of %d", len(uses), len(want))
	}
	for k, u := range uses {
		if c.Type(u) != want[k] {
			return fmt.Errorf("operand %d is %v instead of %v", k, c.Type(u), want[k])
		}
	}
	return nil
}

// scalar checks an operation of package lane.
func (c *checker) scalar(i *Inst) error {
	op := lane.Op(i.Op)
	if !legal[i.Op] || !registers[i.D] {
		return fmt.Errorf("kernels have no operation %v of %v", op, i.D)
	}
	if op == lane.Const {
		if n := 8 * i.D.Size(); n < 64 && i.Imm>>n != 0 || i.D == tensor.Bool && i.Imm > 1 {
			return fmt.Errorf("%#x is not a value of %v", i.Imm, i.D)
		}
		return c.types(i)
	}
	uses := i.Uses()
	if len(uses) != lane.Ops[op].Args {
		return fmt.Errorf("%d operands instead of %d", len(uses), lane.Ops[op].Args)
	}
	from := c.Type(uses[len(uses)-1])
	ok := lane.Ops[op].On.Has(from)
	switch {
	case op == lane.Convert:
		ok = ok && c.converts(i.D, from)
	case op == lane.Bits:
		ok = ok && from.Size() == i.D.Size() && i.D != tensor.Bool
	case op.Compares():
		ok = ok && i.D == tensor.Bool
	case op == lane.Select:
		return c.types(i, tensor.Bool, i.D, i.D)
	default:
		ok = ok && from == i.D && (op != lane.Lookup || i.Table != nil)
	}
	for _, u := range uses {
		ok = ok && c.Type(u) == from
	}
	if !ok {
		return fmt.Errorf("%v of %v cannot give %v", op, from, i.D)
	}
	return nil
}

// converts reports whether kernels have a conversion. Floats convert to other floats, int32 and int64. Integers convert
// to floats, and to integers of another size and the same signedness.
func (c *checker) converts(to, from tensor.DType) bool {
	switch {
	case to == tensor.Bool || from == tensor.Bool:
		return false
	case from.IsFloat() && !to.IsFloat():
		return to.IsSigned()
	case to.IsFloat():
		return to != from
	}
	return to.Size() != from.Size() && to.IsSigned() == from.IsSigned()
}

// device checks an operation that package lane does not have.
func (c *checker) device(i *Inst) error {
	uses := i.Uses()
	words := map[tensor.DType]bool{tensor.Uint8: true, tensor.Uint16: true, tensor.Uint32: true, tensor.Uint64: true}
	switch i.Op {
	case Param:
		if i.Imm >= uint64(c.Params) || i.D != tensor.Uint64 {
			return fmt.Errorf("there is no address %d", i.Imm)
		}
	case Load:
		if !words[i.D] || i.Imm != 1 && i.Imm != 2 && i.Imm != MaxWords || i.Imm > 1 && i.D.Size() < 4 {
			return fmt.Errorf("a Load of %d words of %v is not supported", i.Imm, i.D)
		}
		return c.types(i, tensor.Uint64)
	case Part:
		if len(uses) != 1 || c.Insts[uses[0]].Op != Load || i.Imm >= c.Insts[uses[0]].Imm || i.D != c.Type(uses[0]) {
			return errors.New("the operand is not a Load with this word")
		}
	case Store:
		n := len(uses) - 1
		if !words[i.D] || n != 1 && n != 2 && n != MaxWords || n > 1 && i.D.Size() < 4 {
			return fmt.Errorf("a Store of %d words of %v is not supported", n, i.D)
		}
		want := []tensor.DType{tensor.Uint64}
		for range n {
			want = append(want, Register(i.D))
		}
		return c.types(i, want...)
	case MulHigh:
		return c.types(i, tensor.Uint32, tensor.Uint32)
	case Break, If:
		return c.types(i, tensor.Bool)
	case Var:
		return c.types(i, i.D)
	case Get, Set:
		if len(uses) < 1 || c.Insts[uses[0]].Op != Var {
			return errors.New("there is no variable")
		}
		d := c.Insts[uses[0]].D
		if i.Op == Set {
			return c.types(i, d, d)
		}
		if i.D != d {
			return fmt.Errorf("the result is %v, but the variable is %v", i.D, d)
		}
		return c.types(i, d)
	case LoadShared, StoreShared:
		return c.shared(i)
	}
	return nil
}

func (c *checker) shared(i *Inst) error {
	if i.Imm >= uint64(len(c.Shared)) {
		return fmt.Errorf("there is no array %d", i.Imm)
	}
	d := c.Shared[i.Imm].D
	if i.Op == StoreShared {
		return c.types(i, tensor.Uint32, d)
	}
	if i.D != d {
		return fmt.Errorf("the result is %v, but the array is %v", i.D, d)
	}
	return c.types(i, tensor.Uint32)
}
