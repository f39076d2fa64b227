package interp

import (
	"slices"
	"sync"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// peephole is a formula of many instructions that one loop computes in a fraction of the time. Preparation finds it in
// a code by comparison of instructions, even if it is a part of a larger formula.
type peephole struct {
	text   string                        // the formula
	params []string                      // its operands
	dtypes []tensor.DType                // the dtypes of operands for which there is a loop
	body   func(d tensor.DType) loopFunc // the loop for a dtype
}

// peepholes has two kinds of formulas: formulas of complex numbers, whose parts are computed together, and formulas
// with many cases for rare operands. The columns are the fields of peephole: the formula, its operands, their dtypes,
// and the loops.
var peepholes = []peephole{
	{"x * x", []string{"x"}, complexes, inParts(complexSquare[float32], complexSquare[float64])},
	{"x * y", []string{"x", "y"}, complexes, inParts(complexMul[float32], complexMul[float64])},
	{"x / y", []string{"x", "y"}, complexes, inParts(complexDiv[float32, uint32], complexDiv[float64, uint64])},
	{"x + y", []string{"x", "y"}, complexes, inParts(complexAdd[float32], complexAdd[float64])},
	{"x - y", []string{"x", "y"}, complexes, inParts(complexSub[float32], complexSub[float64])},
	{"-x", []string{"x"}, complexes, inParts(complexNeg[float32], complexNeg[float64])},
	{"x != 0 and y != 0", []string{"x", "y"}, complexes,
		inParts(complexLogical[uint32](expr.And), complexLogical[uint64](expr.And))},
	{"x != 0 or y != 0", []string{"x", "y"}, complexes,
		inParts(complexLogical[uint32](expr.Or), complexLogical[uint64](expr.Or))},
	{"(x != 0) != (y != 0)", []string{"x", "y"}, complexes,
		inParts(complexLogical[uint32](expr.Xor), complexLogical[uint64](expr.Xor))},
	{"x == 0", []string{"x"}, complexes, inParts(complexTest[uint32](true), complexTest[uint64](true))},
	{"x != 0", []string{"x"}, complexes, inParts(complexTest[uint32](false), complexTest[uint64](false))},
	{"x == y", []string{"x", "y"}, complexes, inParts(complexEq[float32], complexEq[float64])},
	{"x != y", []string{"x", "y"}, complexes, inParts(complexNe[float32], complexNe[float64])},
	{"exp(x)", []string{"x"}, complexes, inParts(complexExp[float32], complexExp[float64])},
	{"hypot(x, y)", []string{"x", "y"}, reals, inParts(hypotV[float32], hypotV[float64])},
	{"float32(where(isinf(float64(x)) or isinf(float64(y)), inf, " +
		"sqrt(float64(x) * float64(x) + float64(y) * float64(y))))", []string{"x", "y"}, reals[:1],
		func(tensor.DType) loopFunc { return hypotSingle }},
	{"nan_to_num(x, y, z, w)", []string{"x", "y", "z", "w"}, reals,
		inParts(finiteV[float32, uint32], finiteV[float64, uint64])},
	{"x != 0 and y != 0", []string{"x", "y"}, tested, logicalBody(expr.And)},
	{"x != 0 or y != 0", []string{"x", "y"}, tested, logicalBody(expr.Or)},
	{"(x != 0) != (y != 0)", []string{"x", "y"}, tested, logicalBody(expr.Xor)},
	{"x << y", []string{"x", "y"}, shorts,
		inInts(shlShort[int8], shlShort[int16], nil, nil, shlShort[uint8], shlShort[uint16], nil, nil)},
	{"x >> y", []string{"x", "y"}, shorts,
		inInts(shrShort[int8], shrShort[int16], nil, nil, shrShort[uint8], shrShort[uint16], nil, nil)},
	{"fmod(x, y)", []string{"x", "y"}, wholes, inInts(remInt[int8, int32], remInt[int16, int32], remInt[int32, int32],
		remInt[int64, int64], remInt[uint8, int32], remInt[uint16, int32], remInt[uint32, uint32], remInt[uint64, uint64])},
	{"x % y", []string{"x", "y"}, wholes, inInts(modShort[int8, int32], modShort[int16, int32],
		modShort[int32, int32], modInt[int64], modShort[uint8, int32], modShort[uint16, int32], modShort[uint32, uint32],
		modInt[uint64])},
	{"minimum(maximum(x, 0), y)", []string{"x", "y"}, signed, inInts(clampFromZero[int8, int32],
		clampFromZero[int16, int32], clampFromZero[int32, int32], clampFromZero[int64, int64], nil, nil, nil, nil)},
	{"maximum(x, 0)", []string{"x"}, signed,
		inInts(reluInt[int8], reluInt[int16], reluInt[int32], reluInt[int64], nil, nil, nil, nil)},
	{"heaviside(x, y)", []string{"x", "y"}, wholes, inInts(stepInt[int8, int32], stepInt[int16, int32],
		stepInt[int32, int32], stepInt[int64, int64], stepInt[uint8, int32], stepInt[uint16, int32],
		stepInt[uint32, uint32], stepInt[uint64, uint64])},
	{"where(x <= y, z, x)", []string{"x", "y", "z"}, wholes, inInts(replaceLow[int8, int32], replaceLow[int16, int32],
		replaceLow[int32, int32], replaceLow[int64, int64], replaceLow[uint8, int32], replaceLow[uint16, int32],
		replaceLow[uint32, uint32], replaceLow[uint64, uint64])},
	{"x // y", []string{"x", "y"}, wholes, inInts(floorDivInt[int8, int32], floorDivInt[int16, int32],
		floorDivInt[int32, int32], floorDivInt[int64, int64], floorDivInt[uint8, int32], floorDivInt[uint16, int32],
		floorDivInt[uint32, uint32], floorDivInt[uint64, uint64])},
	{"x // y", []string{"x", "y"}, reals, inParts(floorDiv[float32, uint32], floorDiv[float64, uint64])},
	{"x % y", []string{"x", "y"}, reals, inParts(modFloat[float32, uint32], modFloat[float64, uint64])},
	{"heaviside(x, y)", []string{"x", "y"}, reals, inParts(stepV[float32, uint32], stepV[float64, uint64])},
	{"sign(x)", []string{"x"}, reals, inParts(signV[float32, uint32], signV[float64, uint64])},
	{"fmax(x, y)", []string{"x", "y"}, reals, inParts(fmaxFloat[float32, uint32], fmaxFloat[float64, uint64])},
	{"fmin(x, y)", []string{"x", "y"}, reals, inParts(fminFloat[float32, uint32], fminFloat[float64, uint64])},
	{"where(x > y, x - z, where(x < w, x + z, x * 0))", []string{"x", "y", "z", "w"}, reals,
		inParts(shrinkV[float32, uint32], shrinkV[float64, uint64])},
	{"where(x < y, y, where(x > z, z, x))", []string{"x", "y", "z"}, reals,
		inParts(clampBetween[float32, uint32], clampBetween[float64, uint64])},
	{"x + y", []string{"x", "y"}, halves, inHalves(addHalf, addBF16)},
	{"x - y", []string{"x", "y"}, halves, inHalves(subHalf, subBF16)},
	{"x * y", []string{"x", "y"}, halves, inHalves(mulHalf, mulBF16)},
	{"x / y", []string{"x", "y"}, halves, inHalves(divHalf, divBF16)},
	{"x // y", []string{"x", "y"}, halves, inHalves(floorDivHalf, floorDivBF16)},
	{"trunc_divide(x, y)", []string{"x", "y"}, halves, inHalves(divTruncHalf, divTruncBF16)},
	{"rint(type_as(x * y, x)) / z", []string{"x", "y", "z"}, halves, inHalves(mulRintDivHalf, mulRintDivBF16)},
	{"rint(type_as(x / y, x)) * z", []string{"x", "y", "z"}, halves, inHalves(divRintMulHalf, divRintMulBF16)},
	{"where(x > 0, x, x * y)", []string{"x", "y"}, halves, inHalves(leakyReluHalf, leakyReluBF16)},
	{"where(x > type_as(0, x), x, type_as(x * y, x))", []string{"x", "y"}, halves, inHalves(leakyReluHalf, leakyReluBF16)},
	{"where(abs(x) <= y, z, x)", []string{"x", "y", "z"}, reals,
		inParts(replaceNear[float32, uint32], replaceNear[float64, uint64])},
	{"x - trunc(x)", []string{"x"}, reals, inParts(fracV[float32], fracV[float64])},
	{"trunc(x / y)", []string{"x", "y"}, reals, inParts(divTrunc[float32], divTrunc[float64])},
	{"rint(x * y) / z", []string{"x", "y", "z"}, reals, inParts(mulRintDiv[float32], mulRintDiv[float64])},
	{"rint(x / y) * z", []string{"x", "y", "z"}, reals, inParts(divRintMul[float32], divRintMul[float64])},
	{"where(y != y, y, where(x == 0, 0, x * log(y)))", []string{"x", "y"}, reals, inParts(xlogy[float32], xlogy[float64])},
	{"where(x > 0, x, x * y)", []string{"x", "y"}, reals,
		inParts(leakyRelu[float32, uint32], leakyRelu[float64, uint64])},
	{"x * minimum(maximum(x + 3, 0), 6) / 6", []string{"x"}, reals,
		inParts(hardSwish[float32, uint32], hardSwish[float64, uint64])},
	{"minimum(maximum(x + 3, 0), 6) / 6", []string{"x"}, reals,
		inParts(hardSigmoid[float32, uint32], hardSigmoid[float64, uint64])},
	{"x + w * y * z", []string{"x", "y", "z", "w"}, reals, inParts(addScaledMul[float32], addScaledMul[float64])},
	{"x + w * y * z", []string{"x", "y", "z", "w"}, wholes, inInts(addScaledMul[uint8], addScaledMul[uint16],
		addScaledMul[uint32], addScaledMul[uint64], addScaledMul[uint8], addScaledMul[uint16], addScaledMul[uint32],
		addScaledMul[uint64])},
	{"x + w * y / z", []string{"x", "y", "z", "w"}, reals, inParts(addScaledDiv[float32], addScaledDiv[float64])},
	{"lerp(x, y, z)", []string{"x", "y", "z"}, reals, inParts(lerpV[float32, uint32], lerpV[float64, uint64])},
	{"x + z * (y - x)", []string{"x", "y", "z"}, reals, inParts(interpolate[float32], interpolate[float64])},
}

// pairPeepholes are formulas of complex numbers in memory. The loop gets one address for both parts of an operand,
// because a step does not have enough operands for the parts of three complex numbers.
var pairPeepholes = []peephole{
	{"lerp(x, y, z)", []string{"x", "y", "z"}, complexes,
		inParts(complexLerp[float32, uint32], complexLerp[float64, uint64])},
}

var (
	complexes = []tensor.DType{tensor.Complex64, tensor.Complex128}
	halves    = []tensor.DType{tensor.Float16, tensor.BFloat16}
	reals     = []tensor.DType{tensor.Float32, tensor.Float64}
	signed    = []tensor.DType{tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64}
	unsigned  = []tensor.DType{tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64}
	wholes    = slices.Concat(signed, unsigned)
	shorts    = []tensor.DType{tensor.Int8, tensor.Int16, tensor.Uint8, tensor.Uint16}
	tested    = slices.Concat(wholes, reals)
)

// inInts returns the loops of integer dtypes. A nil loop means that the peephole does not support the dtype.
func inInts(i8, i16, i32, i64, u8, u16, u32, u64 loopFunc) func(tensor.DType) loopFunc {
	t := [tensor.Complex64]loopFunc{tensor.Int8: i8, tensor.Int16: i16, tensor.Int32: i32, tensor.Int64: i64,
		tensor.Uint8: u8, tensor.Uint16: u16, tensor.Uint32: u32, tensor.Uint64: u64}
	return func(d tensor.DType) loopFunc { return t[d] }
}

func inHalves(half, bf16 loopFunc) func(tensor.DType) loopFunc {
	return func(d tensor.DType) loopFunc {
		if d == tensor.Float16 {
			return half
		}
		return bf16
	}
}

func inParts(single, double loopFunc) func(tensor.DType) loopFunc {
	return func(d tensor.DType) loopFunc {
		if d.ToReal() == tensor.Float32 {
			return single
		}
		return double
	}
}

// template is a peephole for one dtype. Its Code is the code of the peephole's formula. pairs is set for pairPeepholes.
type template struct {
	*expr.Code
	body  loopFunc
	pairs bool
}

var templates = sync.OnceValue(func() []template {
	return append(templatesOf(peepholes, false), templatesOf(pairPeepholes, true)...)
})

func templatesOf(found []peephole, pairs bool) (list []template) {
	for _, x := range found {
		f, err := expr.Parse(x.text, x.params...)
		if err != nil {
			panic("interp: the peephole " + x.text + ": " + err.Error())
		}
		for _, d := range x.dtypes {
			in := make([]tensor.DType, len(x.params))
			for k := range in {
				in[k] = d
			}
			c, err := f.Code(in, expr.Typing{})
			if err == nil {
				c, err = constantHalves(c)
			}
			if err != nil {
				panic("interp: the peephole " + x.text + ": " + err.Error())
			}
			list = append(list, template{c, x.body(d), pairs})
		}
	}
	return list
}

// peepholeMatch is a peephole that was found in a code.
type peepholeMatch struct {
	body    loopFunc
	uses    []expr.Value // the operands of the loop
	other   expr.Value   // for a complex result, the later of its two values; None for a real result
	swapped bool         // other is the real part
}

// findPeepholes returns the peepholes in a code. The key of a peephole is its result; for a complex result, it is the
// earlier of the two values. readsEachElement reports whether an operand is read in place and has an element for each
// element of the row.
func findPeepholes(c *expr.Code, readsEachElement func(operand int) bool) map[expr.Value]peepholeMatch {
	list := map[expr.Value]peepholeMatch{}
	seen := map[expr.Inst]expr.Value{}
	for v, i := range c.Insts {
		seen[i] = expr.Value(v)
	}
	counts := useCounts(c)
	for _, t := range templates() {
		o := t.Out[0]
		for v, i := range c.Insts {
			if _, taken := list[expr.Value(v)]; taken || i.Op != t.Insts[o.Re].Op || i.DType != t.Insts[o.Re].DType {
				continue
			}
			bound := make([]expr.Value, len(t.Insts))
			for k := range bound {
				bound[k] = expr.None
			}
			if !t.match(c, bound, o.Re, expr.Value(v)) {
				continue
			}
			first, f := expr.Value(v), peepholeMatch{body: t.body, other: expr.None}
			if o.Im != expr.None {
				if f.other = t.lookUp(c, bound, seen, o.Im); f.other == expr.None || f.other == first {
					continue
				}
				if f.swapped = f.other < first; f.swapped {
					first, f.other = f.other, first
				}
			}
			if f.uses = t.operands(c, bound, readsEachElement); f.uses == nil {
				continue
			}
			// operands must precede the result; predicateBlocks moves instructions without operands to the front
			late := func(u expr.Value) bool { return u >= first && c.Insts[u].Op.Args() > 0 }
			if !slices.ContainsFunc(f.uses, late) && !t.recomputesShared(bound, counts) {
				list[first] = f
			}
		}
	}
	return list
}

// operands returns the values that are bound to the operands of the template. For pairs, it returns the values of the
// real parts, or nil if the parts are not adjacent in memory.
func (t template) operands(c *expr.Code, bound []expr.Value,
	readsEachElement func(operand int) bool) (uses []expr.Value) {
	for k, i := range t.Insts {
		if i.Op != expr.Load {
			continue
		}
		if !t.pairs {
			uses = append(uses, bound[k])
			continue
		}
		part := c.Insts[bound[k]]
		if part.Op != expr.Load || part.Imm != i.Imm || !readsEachElement(int(part.A)) {
			return nil
		}
		if i.Imm == 0 {
			uses = append(uses, bound[k])
		} else if first := c.Insts[uses[i.A]]; first.A != part.A {
			return nil
		}
	}
	return uses
}

// useCounts returns the number of uses of each value as an operand or an output.
func useCounts(c *expr.Code) []int {
	n := make([]int, len(c.Insts))
	for _, i := range c.Insts {
		for _, u := range i.Uses() {
			n[u]++
		}
	}
	for _, o := range c.Out {
		if n[o.Re]++; o.Im != expr.None {
			n[o.Im]++
		}
	}
	return n
}

// recomputesShared reports whether a difference or an integer quotient within a peephole of real numbers has another
// user. The peephole would compute this value a second time, which takes longer than separate steps.
func (t template) recomputesShared(bound []expr.Value, counts []int) bool {
	own, o := useCounts(t.Code), t.Out[0]
	for k, i := range t.Insts {
		shared := bound[k] != expr.None && counts[bound[k]] > own[k]
		if shared && o.Im == expr.None && expr.Value(k) != o.Re && (i.Op == expr.Sub || i.Op == expr.Div &&
			!i.DType.IsFloat()) {
			return true
		}
	}
	return false
}

// match reports whether value v of a code matches value x of the template. It binds values of the template to values of
// the code.
func (t template) match(c *expr.Code, bound []expr.Value, x, v expr.Value) bool {
	if bound[x] != expr.None {
		return bound[x] == v
	}
	i, j := t.Insts[x], c.Insts[v]
	if i.DType != j.DType || i.Op != expr.Load && (i.Op != j.Op || i.Imm != j.Imm) || i.Op == expr.Call {
		return false
	}
	bound[x] = v
	if i.Op == expr.Load {
		return true
	}
	of := j.Uses()
	for k, u := range i.Uses() {
		if !t.match(c, bound, u, of[k]) {
			return false
		}
	}
	return true
}

// lookUp returns the value of the code that equals value x of the template, given the bound values.
func (t template) lookUp(c *expr.Code, bound []expr.Value, seen map[expr.Inst]expr.Value, x expr.Value) expr.Value {
	if bound[x] != expr.None {
		return bound[x]
	}
	i := t.Insts[x]
	if i.Op == expr.Load {
		bound[x] = t.otherPart(c, bound, seen, i)
		return bound[x]
	}
	for k, u := range i.Uses() {
		v := t.lookUp(c, bound, seen, u)
		if v == expr.None {
			return expr.None
		}
		*[]*expr.Value{&i.A, &i.B, &i.C}[k] = v
	}
	v, ok := seen[i]
	if !ok {
		return expr.None
	}
	bound[x] = v
	return v
}

// otherPart matches a load i of the template, which loads one part of a complex operand. If the other part of this
// operand is bound, otherPart returns the value of the code that loads the corresponding part. Otherwise it returns
// None.
func (t template) otherPart(c *expr.Code, bound []expr.Value, seen map[expr.Inst]expr.Value, i expr.Inst) expr.Value {
	for k, j := range t.Insts {
		if j.Op != expr.Load || j.A != i.A || bound[k] == expr.None || c.Insts[bound[k]].Op != expr.Load {
			continue
		}
		part := c.Insts[bound[k]]
		if v, ok := seen[expr.Inst{Op: expr.Load, DType: part.DType, A: part.A, B: part.B, C: part.C, Imm: i.Imm}]; ok &&
			part.Imm == j.Imm {
			return v
		}
	}
	return expr.None
}

// finiteV replaces NaN by b, positive infinity by c, and negative infinity by e.
func finiteV[T float, U word](d, a, b, c, e, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb, sc, se := by.d, by.a, by.b, by.c, by.e
	for ; ; d, a, b = unsafe.Add(d, sd), unsafe.Add(a, sa), unsafe.Add(b, sb) {
		x, r := *(*T)(a), *(*U)(a)
		if x-x != 0 {
			switch {
			case x != x:
				r = *(*U)(b)
			case x > 0:
				r = *(*U)(c)
			default:
				r = *(*U)(e)
			}
		}
		*(*U)(d) = r
		if n--; n == 0 {
			return
		}
		c, e = unsafe.Add(c, sc), unsafe.Add(e, se)
	}
}
