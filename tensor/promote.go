package tensor

import "fmt"

// This file computes the common dtype of operands, as PyTorch does. Promote does it for two dtypes: int32 and float16
// give float16. Promotion does it for operands, in which a lower category, such as plain numbers, has less effect: an
// int8 tensor of two dimensions plus an int64 0-dim tensor gives int8. An int8 tensor plus the number 0.5 gives
// float32. A float16 tensor plus the number 0.5 gives float16.

// Promote returns the smallest dtype to which a and b can be promoted (c10::promoteTypes). uint16, uint32 and uint64
// can be promoted only with the same dtype, or with a float, and the result is then the float. Promote rejects other
// pairs with PyTorch's message. float16 and complex64 give complex64, because complex32 is not supported.
func Promote(a, b DType) (DType, error) {
	if !a.Valid() || !b.Valid() {
		return Invalid, fmt.Errorf("%v and %v cannot be promoted: both must be dtypes", a, b)
	}
	if d := promoteTable[a][b]; d != Invalid {
		return d, nil
	}
	return Invalid, fmt.Errorf("Promotion for uint16, uint32, uint64 types is not supported, attempted to "+
		"promote %s and %s", a.TorchName(), b.TorchName())
}

// promoteOrder lists the dtypes in the order of the rows and columns of c10::promoteTypes.
var promoteOrder = [...]DType{Uint8, Int8, Int16, Int32, Int64, Float16, Float32, Float64, Complex64, Complex128,
	Bool, BFloat16}

// promoteTable[a][b] is the result of Promote(a, b), or Invalid if there is none.
var promoteTable = func() (table [numDTypes][numDTypes]DType) {
	// A letter for the kind and the bytes of an element, or of each part of a complex number. bf is bfloat16.
	const (
		u1, i1, i2, i4, i8 = Uint8, Int8, Int16, Int32, Int64
		f2, f4, f8         = Float16, Float32, Float64
		c4, c8, b1, bf     = Complex64, Complex128, Bool, BFloat16
	)
	rows := [...][12]DType{ // rows and columns are in the order of promoteOrder
		{u1, i2, i2, i4, i8, f2, f4, f8, c4, c8, u1, bf},
		{i2, i1, i2, i4, i8, f2, f4, f8, c4, c8, i1, bf},
		{i2, i2, i2, i4, i8, f2, f4, f8, c4, c8, i2, bf},
		{i4, i4, i4, i4, i8, f2, f4, f8, c4, c8, i4, bf},
		{i8, i8, i8, i8, i8, f2, f4, f8, c4, c8, i8, bf},
		{f2, f2, f2, f2, f2, f2, f4, f8, c4, c8, f2, f4},
		{f4, f4, f4, f4, f4, f4, f4, f8, c4, c8, f4, f4},
		{f8, f8, f8, f8, f8, f8, f8, f8, c8, c8, f8, f8},
		{c4, c4, c4, c4, c4, c4, c4, c8, c4, c8, c4, c4},
		{c8, c8, c8, c8, c8, c8, c8, c8, c8, c8, c8, c8},
		{u1, i1, i2, i4, i8, f2, f4, f8, c4, c8, b1, bf},
		{bf, bf, bf, bf, bf, f4, f4, f8, c4, c8, bf, bf},
	}
	for i, row := range rows {
		for j, d := range row {
			table[promoteOrder[i]][promoteOrder[j]] = d
		}
	}
	for d := Uint16; d <= Uint64; d++ {
		table[d][d] = d
		for f := Float16; f <= Float64; f++ {
			table[d][f], table[f][d] = f, f
		}
	}
	return table
}()

// Promotion computes the common dtype of operands, which at::native::ResultTypeState divides into three categories:
// tensors with dimensions, 0-dim tensors, and plain numbers. A category counts only if its kind (bool, integer, float,
// complex) is above the kind of the preceding categories. The zero value is ready for use.
type Promotion struct {
	// The common dtype of each category; Invalid for a category without operands.
	dimDType, zeroDimDType, numberDType DType
	err                                 error
}

// Add adds a tensor of dtype d and the given rank. An invalid dtype becomes the error of [Promotion.Result].
func (p *Promotion) Add(d DType, rank int) {
	if !d.Valid() {
		if p.err == nil {
			p.err = fmt.Errorf("invalid dtype %v", d)
		}
		return
	}
	if rank > 0 {
		p.dimDType = p.promoteWithin(p.dimDType, d)
	} else {
		p.zeroDimDType = p.promoteWithin(p.zeroDimDType, d)
	}
}

// AddNumber adds a plain number. A float has the default dtype float32, and a complex number complex64.
func (p *Promotion) AddNumber(s Scalar) {
	dtype := s.DType()
	switch dtype {
	case Float64:
		dtype = Float32
	case Complex128:
		dtype = Complex64
	}
	p.numberDType = p.promoteWithin(p.numberDType, dtype)
}

// promoteWithin returns the common dtype of two operands of a category. Invalid stands for no operand. An error is kept
// in p.
func (p *Promotion) promoteWithin(a, b DType) DType {
	switch {
	case a == Invalid:
		return b
	case b == Invalid:
		return a
	}
	dtype, err := Promote(a, b)
	if err != nil && p.err == nil {
		p.err = err
	}
	return dtype
}

// Result returns the common dtype (at::native::result_type).
func (p *Promotion) Result() (DType, error) {
	if p.err != nil {
		return Invalid, p.err
	}
	common, err := combineCategories(p.zeroDimDType, p.numberDType)
	if err == nil {
		common, err = combineCategories(p.dimDType, common)
	}
	return common, err
}

// combineCategories returns the common dtype of two categories of operands: the preceding one, with dtype higher, and
// the next one, with dtype lower (combine_categories).
func combineCategories(higher, lower DType) (DType, error) {
	switch {
	case higher == Invalid: // no operands
		return lower, nil
	case lower == Invalid || higher.IsComplex():
		return higher, nil
	case lower.IsComplex():
		// The parts of the result have the dtype of higher, if that is a float. The complex dtype does not matter.
		if higher.IsFloat() {
			return higher.ToComplex(), nil
		}
		return lower, nil
	case higher.IsFloat():
		return higher, nil
	case higher == Bool || lower.IsFloat(): // lower is above higher, or both are bools
		return Promote(higher, lower)
	}
	return higher, nil // an integer, and lower is an integer or bool
}

// CanCast reports whether a result of dtype from may be written to an output of dtype to. A complex dtype does not cast
// to a real dtype, a float does not cast to an integer, and no other dtype casts to bool (c10::canCast).
func CanCast(from, to DType) bool {
	const withBool = false
	switch {
	case from.IsComplex() && !to.IsComplex():
		return false
	case from.IsFloat() && to.IsIntegral(withBool):
		return false
	case from != Bool && to == Bool:
		return false
	}
	return true
}

// FloatFor returns the dtype of the result of a transcendental function of an operand of dtype d. It is d itself for
// floats and complex dtypes, and float32 for bool and integers.
func FloatFor(d DType) DType {
	if d.IsFloat() || d.IsComplex() {
		return d
	}
	return Float32
}
