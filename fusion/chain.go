package fusion

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// EpilogueStep is an operation of an epilogue that kernels can apply in registers. The anchor is the node whose kernel
// applies the epilogue, such as a matrix product or a convolution. The first operand of a step is the result of the
// previous step. The second operand is a number or an operand of the fused node. An operand is a vector of Width
// elements (AlongFastest is set), a scalar (IsScalar is set), or a tensor with the layout of the anchor's result.
// For example, relu(product + bias + skip) has three steps: Add of bias with AlongFastest, Add of skip, and Max of the
// Number 0.
type EpilogueStep struct {
	Op           expr.Op // Add, Mul, Min or Max
	AddressIndex int     // index of the second operand among the addresses of the anchor's kernel; 0 means Number
	Number       float64 // the second operand, if AddressIndex is 0
	// AlongFastest means that the second operand has an element for each position in the fastest dimension of the
	// anchor's result, and is broadcast along all other dimensions.
	AlongFastest bool
	IsScalar     bool // the second operand has one element
	Width        int  // size of the fastest dimension of the anchor's result
}

// Chain returns the epilogue as a sequence of steps. The first operand of the first step is the anchor's result. An
// int32 result is first converted to float32. Chain returns nil if the epilogue is not a sequence of steps, has several
// results, or has an operand in a layout that kernels do not read.
func (e *Epilogue) Chain() []EpilogueStep {
	if e == nil || e.code == nil || len(e.code.Out) != 1 {
		return nil
	}
	dtype := e.code.In[0]
	if dtype == tensor.Int32 {
		dtype = tensor.Float32
	}
	if !dtype.IsFloat() {
		return nil
	}
	var steps []EpilogueStep
	result := e.code.Out[0].Re // the result of the next step to find; the last step is found first
	for !e.isAnchorResult(result, dtype) {
		if result < 0 || e.code.Insts[result].DType != dtype {
			return nil
		}
		inst := e.code.Insts[result]
		switch inst.Op {
		case expr.Add, expr.Mul, expr.Min, expr.Max:
		default:
			return nil
		}
		// All these operations commute, so either operand may be the result of the previous step.
		previous, second := inst.A, inst.B
		if e.isSecondOperand(previous) {
			previous, second = second, previous
		}
		step, ok := e.stepOf(inst.Op, second, dtype)
		if !ok {
			return nil
		}
		steps, result = append(steps, step), previous
	}
	slices.Reverse(steps)
	return steps
}

// isAnchorResult reports whether a value is the anchor's result in the given dtype.
func (e *Epilogue) isAnchorResult(v expr.Value, dtype tensor.DType) bool {
	if v < 0 {
		return false
	}
	inst := e.code.Insts[v]
	if e.code.In[0] != dtype { // int32: the code converts the result
		if inst.Op != expr.Convert || inst.DType != dtype {
			return false
		}
		inst = e.code.Insts[inst.A]
	}
	return inst.Op == expr.Load && inst.A == 0
}

// isSecondOperand reports whether a value is a number or an operand other than the anchor's result, so that it is not
// the result of a step.
func (e *Epilogue) isSecondOperand(v expr.Value) bool {
	if v < 0 {
		return false
	}
	inst := e.code.Insts[v]
	return inst.Op == expr.Const || inst.Op == expr.Load && inst.A != 0
}

// stepOf returns the step with operation op and the given second operand, in the given dtype. It returns false if the
// second operand is neither a number nor an operand in a layout that kernels read.
func (e *Epilogue) stepOf(op expr.Op, second expr.Value, dtype tensor.DType) (step EpilogueStep, ok bool) {
	step.Op = op
	switch inst := e.code.Insts[second]; {
	case inst.Op == expr.Const && inst.DType == tensor.Float32:
		step.Number = float64(math.Float32frombits(uint32(inst.Imm)))
		return step, !math.IsNaN(step.Number)
	case inst.Op == expr.Const && inst.DType == tensor.Float64:
		step.Number = math.Float64frombits(inst.Imm)
		return step, !math.IsNaN(step.Number)
	case inst.Op != expr.Load || inst.A == 0 || inst.DType != dtype || e.code.In[inst.A] != dtype:
		return step, false
	default:
		return e.operandStep(op, int(inst.A))
	}
}

// operandStep returns the step with operation op whose second operand is an operand of the expression. It returns false
// if kernels do not read the operand's layout. A stream describes the memory of the result or an operand. Its strides
// are in bytes, and dimension 0 is the fastest.
func (e *Epilogue) operandStep(op expr.Op, operandIndex int) (step EpilogueStep, ok bool) {
	result, operand := e.streams[0], e.streams[1+operandIndex] // streams: the result, then the operands
	isScalar, sameStrides := true, true
	alongFastest := operand.strides[0] == operand.size
	for dim, stride := range operand.strides {
		sameStrides = sameStrides && stride == result.strides[dim]
		isScalar = isScalar && stride == 0
		alongFastest = alongFastest && (dim == 0 || stride == 0)
	}
	alongFastest = alongFastest && !sameStrides
	step = EpilogueStep{Op: op, AddressIndex: operand.addressIndex, AlongFastest: alongFastest, IsScalar: isScalar,
		Width: e.sizes[0]}
	return step, sameStrides || alongFastest || isScalar
}
