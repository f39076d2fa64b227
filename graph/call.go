package graph

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Call is one application of an op. It is the argument of the functions of an Op, such as Infer and Compile. For
// example, the call of a sum has x in In, and its dimension 1 in the struct of Attrs. If x is float32 of shape [2, 3],
// Out is float32 of shape [2] after inference.
type Call struct {
	In    []Arg         // operands
	Attrs any           // pointer to the struct of decoded attributes, which the op defines
	Out   []tensor.Meta // results; unset during inference
	Impl  *Impl         // the chosen implementation of the op; nil before the choice
	Walk  Walk          // the chosen order of loops and layouts of results
	// InPlace marks the operands of a concatenation that are already stored in their slices of the result. Nil means
	// that there are none.
	InPlace []bool
	// Epilogue is the expression that the kernel applies to each element of its result, or nil. Only the argument of
	// [Impl.Lower] has an Epilogue, and only if [Impl.Epilogues] is set. In [Mem.Ptrs], the addresses of the epilogue's
	// operands come after the addresses of the call's results and operands. If the inner loop of the kernel cannot
	// apply the epilogue, a separate phase of the kernel applies it.
	Epilogue Epilogue

	resultCount    int  // see ResultCount
	metaFixesSizes bool // in inference for unknown sizes: Meta adds guards that fix the operand's sizes to their hints

	oneResult  [1]Result // buffer of NewResult and AliasResult
	allResults []Result  // buffer of NewResults and AliasResults
}

// Epilogue is an expression that the kernel of a product or a convolution applies to each element of its result.
// Operand 0 of the expression is this result. Package fusion implements this interface.
type Epilogue interface {
	// Code returns the expression.
	Code() *expr.Code
}

// ArgKind is the kind of an operand.
type ArgKind uint8

// The kinds of operands.
const (
	Null ArgKind = iota
	TensorArg
	NumberArg
)

// Arg is an operand: a value, a plain number, or nothing. Sizes in its Type may be expressions; sizes in its Meta are
// numbers.
type Arg struct {
	Kind   ArgKind
	Value  *Value        // for TensorArg
	Number tensor.Scalar // for NumberArg
}

// Type returns the type of the operand's value, a 0-dim type for a number, and the zero Type for an absent operand.
func (a Arg) Type() tensor.Type {
	switch {
	case a.Kind == NumberArg:
		return tensor.Type{DType: a.Number.DType()}
	case a.Kind == Null || a.Value == nil:
		return tensor.Type{}
	case a.Value.Packed != nil:
		return a.Value.Packed.Type
	case a.Value.Type.DType == tensor.Invalid:
		return a.Value.Meta.Type() // the Value does not come from a graph: only its Meta is set
	}
	return a.Value.Type
}

// Meta returns the meta of the operand's value, a 0-dim meta for a number, and the zero Meta for an absent operand.
func (a Arg) Meta() tensor.Meta {
	switch a.Kind {
	case TensorArg:
		if a.Value == nil {
			return tensor.Meta{}
		}
		if p := a.Value.Packed; p != nil {
			return p.Meta
		}
		return a.Value.Meta
	case NumberArg:
		return tensor.New(a.Number.DType())
	}
	return tensor.Meta{}
}

// Operand returns the operand in the form of package iter/rule.
func (a Arg) Operand() rule.Operand {
	if a.Kind == NumberArg {
		return rule.NumberOperand(a.Number)
	}
	return rule.OperandOfType(a.Type())
}

// argOf returns a value, a number or nil as an operand. A nil operand is absent.
func argOf(given any) (Arg, error) {
	switch value := given.(type) {
	case nil:
		return Arg{}, nil
	case *Value:
		if value == nil {
			return Arg{}, nil
		}
		return ArgOf(value), nil
	}
	number, ok := tensor.ScalarOf(given)
	if !ok {
		return Arg{}, fmt.Errorf("want a value or a number, got %T", given)
	}
	return Arg{Kind: NumberArg, Number: number}, nil
}

// trimAbsent removes absent operands at the end, so that equal calls have equal operand lists.
func (n *Node) trimAbsent() {
	for len(n.In) > 0 && n.In[len(n.In)-1].Kind == Null {
		n.In = n.In[:len(n.In)-1]
	}
}

// checkArity checks operands against the op's parameters.
func (n *Node) checkArity() error {
	params := n.Op.Params
	singleCount := len(params) // number of parameters that take one operand each; the last parameter may take a list
	if singleCount > 0 && params[singleCount-1].Variadic {
		singleCount--
		if err := n.checkList(params[singleCount], singleCount); err != nil {
			return err
		}
	} else if len(n.In) > singleCount {
		noun := "operands"
		if len(params) == 1 {
			noun = "operand"
		}
		return fmt.Errorf("takes at most %d %s, got %d", len(params), noun, len(n.In))
	}
	for i, param := range params[:singleCount] {
		switch {
		case i >= len(n.In) || n.In[i].Kind == Null:
			if !param.Optional {
				return fmt.Errorf("operand %q is missing", param.Name)
			}
		case n.In[i].Kind == NumberArg && !param.AcceptsNumber:
			hint := ""
			if schema := n.Op.Schema; schema != nil && schema.has(param.attrName()) {
				hint = fmt.Sprintf(": a number is the attribute %q", param.attrName())
			}
			return fmt.Errorf("operand %q must be a tensor, not a number%s", param.Name, hint)
		}
	}
	return nil
}

// checkList checks the operands of a variadic parameter, which begin at n.In[first].
func (n *Node) checkList(param Param, first int) error {
	if len(n.In) <= first {
		if param.Optional {
			return nil
		}
		return errors.New("expected a non-empty list of tensors")
	}
	for i, arg := range n.In[first:] {
		if arg.Kind == NumberArg && !param.AcceptsNumber || arg.Kind == Null && !param.Optional {
			return fmt.Errorf("operand %d of the list must be a tensor", i)
		}
	}
	return nil
}

// ResultCount returns the number of results that the node names, or 0 if inference determines it.
func (c *Call) ResultCount() int { return max(c.resultCount, len(c.Out)) }

// HasOperand reports whether operand i is present.
func (c *Call) HasOperand(i int) bool { return i >= 0 && i < len(c.In) && c.In[i].Kind != Null }

// Type returns the type of operand i, or the zero Type if it is absent. Infer uses it.
func (c *Call) Type(i int) tensor.Type {
	if i < 0 || i >= len(c.In) {
		return tensor.Type{}
	}
	if v := c.In[i].Value; c.In[i].Kind == TensorArg && v != nil && v.Packed == nil && v.Type.DType != tensor.Invalid {
		return v.Type // the usual case is fast, because the Arg is not copied
	}
	return c.In[i].Type()
}

// Meta returns the meta of operand i, or the zero Meta if it is absent. Kernels use it, and so does inference that
// needs sizes as numbers. In inference for unknown sizes, Meta adds guards: the inferred types are valid only if these
// sizes equal their hints.
func (c *Call) Meta(i int) tensor.Meta {
	if i < 0 || i >= len(c.In) {
		return tensor.Meta{}
	}
	if c.metaFixesSizes {
		c.In[i].Type().Specialize()
	}
	return c.In[i].Meta()
}

// Const returns the data of operand i if the operand is a constant that is not packed, otherwise nil. A packed constant
// is stored in the form that its kernel reads.
func (c *Call) Const(i int) *tensor.Tensor {
	if i < 0 || i >= len(c.In) || c.In[i].Kind != TensorArg || c.In[i].Value == nil || c.In[i].Value.Packed != nil {
		return nil
	}
	return c.In[i].Value.Const
}

// IsConstant reports whether operand i is a constant, packed or not. Cost estimates use it, so that a node costs the
// same before and after its constants are packed. It returns false for a constant with a pinned layout. Such a constant
// is never packed, because every run reads it in the pinned layout.
func (c *Call) IsConstant(i int) bool {
	return c.Packed(i) != nil || c.Const(i) != nil && !c.In[i].Value.Pin.SetsLayout()
}

// IsInPlace reports whether operand i is already in its slice of the result: see [Call.InPlace].
func (c *Call) IsInPlace(i int) bool { return i >= 0 && i < len(c.InPlace) && c.InPlace[i] }

// Result is the inferred type of one output. Alias is the index of the operand whose storage the output shares, or
// NoAlias. With an Alias, the offset of Type counts from the start of the shared storage.
type Result struct {
	Type  tensor.Type
	Alias int
	// Dynamic means that the shape is known only after the op has run. Sizes and TypeFor are used only if Dynamic is set.
	Dynamic bool
	Sizes   []int // -1 for an unknown size; nil if the rank is unknown
	// TypeFor returns the type of the result for a given shape. It is nil if the layout is unknown.
	TypeFor func(shape []sym.Int) (tensor.Type, error)
}

// Meta returns the type of the result with numbers in place of expressions: see [tensor.Type.Meta].
func (r Result) Meta() tensor.Meta {
	meta, _ := r.Type.Meta()
	return meta
}

// NoAlias is the [Result.Alias] of a result that shares no storage with an operand.
const NoAlias = -1

// NewResult returns a single result that shares no storage with an operand. To avoid allocations, the returned slice is
// a buffer of the Call. The next call of NewResult or AliasResult overwrites this buffer.
func (c *Call) NewResult(t tensor.Type) []Result { return c.AliasResult(t, NoAlias) }

// AliasResult returns a single result that shares the storage of operand i ([Result].Alias). It uses the buffer of
// [Call.NewResult].
//
//go:noinline // saves code and compile time: it has many callers, none of them hot
func (c *Call) AliasResult(t tensor.Type, i int) []Result {
	c.oneResult[0].set(&t, i)
	return c.oneResult[:]
}

// set assigns the fields one by one, because an assignment of the struct is slower during a garbage collection.
func (r *Result) set(t *tensor.Type, alias int) {
	setFields(&r.Type, t)
	r.Alias, r.Dynamic, r.Sizes = alias, false, nil
}

// setFields copies a type field by field: see [Result.set].
func setFields(dst, src *tensor.Type) {
	dst.DType, dst.Shape, dst.Strides, dst.Offset = src.DType, src.Shape, src.Strides, src.Offset
}

// NewResults returns several results that share no storage with operands: see [Call.NewResult].
func (c *Call) NewResults(types ...tensor.Type) []Result { return c.AliasResults(NoAlias, types...) }

// AliasResults returns several results that share the storage of operand i: see [Call.AliasResult].
func (c *Call) AliasResults(i int, types ...tensor.Type) []Result {
	if len(c.allResults) < len(types) {
		c.allResults = make([]Result, len(types))
	}
	for k := range types {
		c.allResults[k].set(&types[k], i)
	}
	return c.allResults[:len(types)]
}

// Attr returns the decoded value of an attribute, in the Go type of its field (see [Schema]). It is for implementations
// of an op of another package, whose struct of attributes they cannot name:
//
//	stride, _ := call.Attr("stride").([]int)
//
// It returns nil if there is no attribute of this name.
func (c *Call) Attr(name string) any {
	if c == nil {
		return nil
	}
	attrs := reflect.ValueOf(c.Attrs)
	if attrs.Kind() != reflect.Pointer || attrs.IsNil() || attrs.Elem().Kind() != reflect.Struct {
		return nil
	}
	attrs = attrs.Elem()
	for i := range attrs.NumField() {
		if field := attrs.Type().Field(i); field.Tag.Get("attr") == name && field.IsExported() {
			return attrs.Field(i).Interface()
		}
	}
	return nil
}

// Walk has the order of the loops of a call, and the layouts of its results. With the zero Walk the results have the
// inferred layouts.
type Walk struct {
	// LoopOrder is the order in which loops nest the dimensions of the first result. An empty order follows the layouts of
	// the operands.
	LoopOrder tensor.Order
	// ResultOrders has the order of each result. An empty or missing order means the inferred layout.
	ResultOrders []tensor.Order
}

// Equal reports whether two walks are equal.
func (walk Walk) Equal(other Walk) bool {
	return walk.LoopOrder == other.LoopOrder && slices.Equal(walk.ResultOrders, other.ResultOrders)
}

// WalkInOrder returns the walk whose loops have the given order. Results whose rank is the length of the order are laid
// out in this order.
func (c *Call) WalkInOrder(order tensor.Order) Walk {
	walk := Walk{LoopOrder: order, ResultOrders: make([]tensor.Order, len(c.Out))}
	for i, meta := range c.Out {
		if meta.Rank() == order.Rank() {
			walk.ResultOrders[i] = order
		}
	}
	return walk
}

// HasInferredLayouts reports whether all results have their inferred layouts.
func (walk Walk) HasInferredLayouts() bool {
	return !slices.ContainsFunc(walk.ResultOrders, func(order tensor.Order) bool { return order != "" })
}

// ResultLayout returns the layout of result i under the walk. meta is the inferred layout. If meta is already dense in
// the walk's order, ResultLayout returns meta unchanged.
func (walk Walk) ResultLayout(i int, meta tensor.Meta) tensor.Meta {
	if i < 0 || i >= len(walk.ResultOrders) {
		return meta
	}
	order := walk.ResultOrders[i]
	if order == "" || order.Rank() != meta.Rank() || order.Matches(meta) {
		return meta
	}
	return meta.WithStrides(order.Strides(meta.Shape))
}

// producesLayouts reports whether the results in call.Out have the layouts of the walk.
func (walk Walk) producesLayouts(call *Call) bool {
	for i, order := range walk.ResultOrders {
		if i < len(call.Out) && order != "" && !order.Matches(call.Out[i]) {
			return false
		}
	}
	return true
}
