//go:build (linux || darwin) && !386 && !arm

// Package extreme_test calls every op of the catalogue with extreme attributes and layouts, where no byte outside of
// operands and results can be accessed, and compares the results with the op's reference.
package extreme_test

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// mostElements bounds the elements of an operand or a result of a call that is run.
const mostElements = 1 << 11

// drawn makes choices from bytes, and from random numbers that follow from these once they are used up.
type drawn struct {
	data  []byte
	rng   *rand.Rand
	theme int   // the number that extreme attributes of the call are made of
	sizes []int // of the operands' dimensions
}

// n returns a number from 0 to most-1.
func (d *drawn) n(most int) int {
	if len(d.data) > 0 && most <= 256 {
		b := int(d.data[0])
		d.data = d.data[1:]
		return b % most
	}
	return d.rng.IntN(most)
}

// one reports true once in n times.
func (d *drawn) one(n int) bool { return d.n(n) == 0 }

func pick[T any](d *drawn, list ...T) T { return list[d.n(len(list))] }

// call is a call of an op as a user would write it.
type call struct {
	op      *graph.Op
	attrs   graph.Attrs
	in      []tensor.Meta // Invalid for an operand left out
	numbers []any         // a plain number in place of operand i, or nil
	extreme bool          // some attribute is extreme
	choices *drawn        // for later decisions
	// Operands hold infinities, NaN or numbers that float64 rounds, and results are sums, which depend on the order.
	special bool
}

// String is the call as a graph file, which the command runs.
func (c *call) String() string {
	type input struct {
		Name    string `json:"name"`
		DType   string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Strides []int  `json:"strides,omitempty"`
	}
	inputs, operands := []input{}, []any{}
	for i, m := range c.in {
		switch {
		case c.numbers[i] != nil:
			operands = append(operands, c.numbers[i])
		case m.DType == tensor.Invalid:
			operands = append(operands, nil)
		default:
			name := fmt.Sprint("x", i)
			inputs = append(inputs, input{name, m.DType.String(), append([]int{}, m.Shape...), m.Strides})
			operands = append(operands, name)
		}
	}
	attrs := map[string]any{}
	for name, v := range c.attrs {
		attrs[name] = written(v)
	}
	text, err := json.Marshal(map[string]any{"version": 1, "inputs": inputs, "outputs": []string{"y"},
		"nodes": []any{map[string]any{"name": "y", "op": c.op.Name, "inputs": operands, "attrs": attrs}}})
	if err != nil {
		return fmt.Sprintf("%s %v of %v: %v", c.op.Name, c.attrs, c.in, err)
	}
	return string(text)
}

// written returns an attribute as a file has it.
func written(v any) any {
	switch x := v.(type) {
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Sprint(x)
		}
	case []float64:
		list := make([]any, len(x))
		for i := range x {
			list[i] = written(x[i])
		}
		return list
	case tensor.DType, tensor.MemoryFormat:
		return fmt.Sprint(x)
	case *graph.Graph:
		return x.Name
	}
	return v
}

// ops are the ops that have examples, from which calls are drawn. if_sizes is not among them: its condition is not an
// integer, and the branch that it chooses takes its place before anything runs.
var ops = func() (list []*graph.Op) {
	for _, op := range kernels.All() {
		if len(examples(op)) > 0 && op.Infer != nil && op.Ref != nil {
			list = append(list, op)
		}
	}
	return list
}()

// opOf chooses an op by a number: of nearly all numbers the same one when ops are added. Those with integers among
// their attributes are chosen more often.
func opOf(number uint64) *graph.Op {
	best, most := ops[0], uint64(0)
	for i, op := range ops {
		if !among(op) {
			continue
		}
		tickets := uint64(1)
		if hasIntegers(op) {
			tickets = 4
		}
		for k := range tickets {
			if v := mixed(number + opKeys[i] + k); v > most {
				best, most = op, v
			}
		}
	}
	return best
}

// among reports whether calls of an op are drawn: GRAPHRUN_EXTREME_OPS lists op names, separated by commas.
func among(op *graph.Op) bool {
	return len(named) == 0 || slices.Contains(named, op.Name)
}

var named = strings.FieldsFunc(os.Getenv("GRAPHRUN_EXTREME_OPS"), func(r rune) bool { return r == ',' })

// opKeys are numbers that stand for the ops.
var opKeys = func() []uint64 {
	list := make([]uint64, len(ops))
	for i, op := range ops {
		h := fnv.New64a()
		_, _ = h.Write([]byte(op.Name))
		list[i] = h.Sum64()
	}
	return list
}()

// hasIntegers reports whether some attribute of an op is made of integers.
func hasIntegers(op *graph.Op) bool {
	return slices.ContainsFunc(op.Schema.Fields, func(f graph.Field) bool { return strings.Contains(f.Type, "int") })
}

// mixed spreads the bits of a number: the finalizer of SplitMix64.
func mixed(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// newDrawn makes choices of bytes.
func newDrawn(data []byte) *drawn {
	h := fnv.New64a()
	_, _ = h.Write(data)
	return &drawn{data: data, rng: rand.New(rand.NewPCG(h.Sum64(), uint64(len(data))))}
}

// draw makes a call of an op from bytes.
func draw(op *graph.Op, data []byte) *call {
	d := newDrawn(data)
	ex := pick(d, examples(op)...)
	c := &call{op: op, attrs: graph.Attrs{}, choices: d}
	c.in = d.operands(ex.In, op.ReadsStorage)
	c.numbers = d.plainNumbers(op, c.in)
	for _, m := range c.in {
		d.sizes = append(d.sizes, m.Shape...)
		if n := m.Numel(); n > 0 {
			d.sizes = append(d.sizes, n)
		}
	}
	d.search(c, ex.Attrs)
	return c
}

// reach is the stage that a call reaches by its inference; later stages find more faults.
type reach int

const (
	isRefused reach = iota
	isAccepted
	isExtremeAccepted
	isExtremeRun
)

// search draws attributes until the call reaches the chosen stage, a bounded number of times: most extreme attributes
// are refused.
func (d *drawn) search(c *call, given graph.Attrs) {
	goal, best := pick(d, isRefused, isAccepted, isExtremeAccepted, isExtremeRun, isExtremeRun, isExtremeRun), reach(-1)
	var attrs graph.Attrs
	tries := 1
	if hasIntegers(c.op) {
		tries = 60
	}
	for range tries {
		d.theme = d.power()
		c.attrs, c.extreme = d.attributes(c.op, given)
		if r := c.reaches(); r > best {
			best, attrs = r, c.attrs
		}
		if best >= goal {
			break
		}
	}
	c.attrs, c.extreme = attrs, best >= isExtremeAccepted
}

// attributes changes some attributes of an example.
func (d *drawn) attributes(op *graph.Op, given graph.Attrs) (attrs graph.Attrs, extreme bool) {
	attrs = graph.Attrs{}
	for name, v := range given {
		attrs[name] = v
	}
	often := pick(d, 1, 2, 2, 4)
	if d.one(8) {
		return attrs, false
	}
	for _, f := range op.Schema.Fields {
		if !d.one(often) || f.Name == "trips" { // which repeats what operands say
			continue
		}
		was, ok := attrs[f.Name]
		if !ok {
			was, _ = f.DefaultValue()
		}
		v := d.attribute(f, was)
		if v == nil {
			continue
		}
		attrs[f.Name] = v
		extreme = extreme || isExtreme(v)
	}
	return attrs, extreme
}

func isExtreme(v any) bool {
	switch x := v.(type) {
	case int:
		return x >= math.MaxInt32 || x <= math.MinInt32
	case []int:
		return slices.ContainsFunc(x, func(n int) bool { return isExtreme(n) })
	}
	return false
}

// power returns a power of 2 at which arithmetic may overflow, or a neighbour of one.
func (d *drawn) power() int {
	k := pick(d, 16, 24, 29, 30, 31, 32, 33, 35, 40, 44, 45, 46, 47, 53, 62)
	return 1<<k + pick(d, -1, 0, 0, 0, 1)
}

// integer is an integer for an attribute.
func (d *drawn) integer() int {
	switch d.n(14) {
	case 0, 1, 2:
		return d.n(5)
	case 3:
		return -1 - d.n(3)
	case 4, 5:
		if len(d.sizes) > 0 {
			return d.sizes[d.n(len(d.sizes))] + pick(d, -1, 0, 0, 0, 1)
		}
		return d.n(9)
	case 6, 7, 8:
		return d.theme
	case 9, 10:
		return d.near(d.theme)
	case 11:
		return d.power()
	case 12: // whose product with a small number wraps to a small one
		by := uint64(2 + d.n(15))
		if d.one(2) {
			return int(uint64(1)<<32/by) + d.n(2)
		}
		q, _ := bits.Div64(1, 0, by)
		return int(q>>d.n(2)) + d.n(2)
	}
	return pick(d, math.MaxInt, math.MinInt, math.MaxInt-1, math.MinInt+1, math.MaxInt32, math.MinInt32)
}

// near returns a number related to another attribute x, such as its half or double.
func (d *drawn) near(x int) int {
	switch d.n(6) {
	case 0:
		return x / 2
	case 1:
		return 2 * x
	case 2:
		return x + pick(d, -2, -1, 1, 2)
	case 3:
		return -x
	case 4:
		return x / (3 + d.n(5))
	}
	return x * (3 + d.n(5))
}

// float is a number for an attribute.
func (d *drawn) float() float64 {
	return pick(d, 0, 1, 0.5, 2, -1, 1e-30, 1e30, 1e-300, 1e300, math.Inf(1), math.Inf(-1), math.NaN(), 1<<31, 1<<53,
		0x1p63, -0x1p63, float64(d.theme), 1/float64(d.theme), math.Copysign(0, -1), 3.5)
}

// attribute returns a new value of an attribute; nil if the attribute is not changed.
func (d *drawn) attribute(f graph.Field, was any) any {
	if f.OneOf != nil {
		return pick(d, f.OneOf...)
	}
	switch base := trimmed(f.Type); base {
	case "int":
		return d.integer()
	case "number":
		if d.one(2) {
			return d.integer()
		}
		return d.float()
	case "float":
		return d.float()
	case "bool":
		return d.one(2)
	case "dtype":
		return pick(d, tensor.DTypes()...)
	case "memory_format":
		return pick(d, tensor.Contiguous, tensor.ChannelsLast, tensor.ChannelsLast3d, tensor.Preserve)
	case "int[]", "int|int[]":
		if f.Words != nil && d.one(6) {
			return pick(d, f.Words...)
		}
		if base == "int|int[]" && d.one(2) {
			return d.integer()
		}
		return d.integers(f, was)
	case "float[]":
		list := make([]float64, d.length(f, was))
		for i := range list {
			list[i] = d.float()
		}
		return list
	}
	return nil
}

// trimmed returns the type of a field without its optional mark and its words.
func trimmed(t string) string {
	for i := range t {
		if t[i] == '?' || t[i] == '|' && t[i+1:] != "int[]" {
			return t[:i]
		}
	}
	return t
}

// length returns the length of a new list: mostly that of the old one.
func (d *drawn) length(f graph.Field, was any) int {
	n := len(integersOf(was))
	if list, ok := was.([]float64); ok {
		n = len(list)
	}
	if f.Len > 0 {
		n = f.Len
	}
	if n == 0 || d.one(12) {
		return d.n(5)
	}
	return n
}

// integers changes some numbers of a list.
func (d *drawn) integers(f graph.Field, was any) []int {
	old, list := integersOf(was), make([]int, d.length(f, was))
	all, same := d.one(2), d.integer()
	alike := d.one(4)
	for i := range list {
		switch {
		case alike:
			list[i] = same
		case all || len(old) == 0 || d.one(2):
			list[i] = d.integer()
		default:
			list[i] = old[i%len(old)]
		}
	}
	return list
}

// integersOf returns the numbers of an attribute as examples and defaults have them.
func integersOf(v any) (list []int) {
	switch x := v.(type) {
	case int:
		return []int{x}
	case int64:
		return []int{int(x)}
	case []int:
		return x
	case []any:
		for _, e := range x {
			list = append(list, integersOf(e)...)
		}
	}
	return list
}
