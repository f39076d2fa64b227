package graph

import (
	"encoding/binary"
	"math"
	"reflect"
	"slices"
	"sync"
	"unsafe"
	"weak"

	"github.com/graphrun/graphrun/tensor"
)

// foldCache is the cache of constant folding. It has the results of calls whose operands are constants. A graph, its
// clones and its segments share one foldCache. If several plans need a constant in the same converted layout or packed
// form, the converted constant is in memory only once. The cache has only weak references to results, so it does not
// keep them in memory.
//
// For example, the plans for two sizes of a batch both need the constant w in packed form. The first plan computes it.
// The key of the call is equal for the second plan: the same op and implementation, the same id of w's storage, and
// equal layouts. [Graph.Fold] then returns the first result.
type foldCache struct {
	mu sync.Mutex
	// ids identify the storages of constants. If a result was garbage-collected and is computed again, the new result
	// gets the old id. Thus cached results that were computed from the old result are still found.
	ids        map[weakStorage]int
	maxIDs     int                      // if there are more ids, the ids of garbage-collected storages are removed
	lastID     int                      // the highest id that was assigned
	callsByKey map[string][]*foldedCall // calls with the same key differ in their attributes: see key
	callCount  int                      // number of calls in callsByKey
	maxCalls   int                      // at this number of calls, calls with garbage-collected results are removed
}

// foldedCall is a call whose operands are constants.
type foldedCall struct {
	op           *Op // kept alive because the address of the op is part of the key
	attrs        any
	usedRecently bool  // used since the last dropCalls
	resultIDs    []int // ids of the results
	results      []weakStorage
}

// weakStorage is a weak.Pointer to a storage. It is an interface for the speed of builds: otherwise every package that
// uses Graph would also compile the methods of weak.Pointer.
type weakStorage interface{ Value() *tensor.Storage }

// Fold returns the results of a node whose tensor operands are all constants. An equal node of the graph, of its clones
// or of its segments may have been folded before. If the results of that node are still in use, Fold returns them.
// Otherwise it calls compute, whose results must have the metas of the node's outputs. The results must not be written.
// Fold is safe for concurrent use.
func (g *Graph) Fold(n *Node, compute func() ([]*tensor.Tensor, error)) ([]*tensor.Tensor, error) {
	if compute == nil {
		panic("graph: Fold needs a function")
	}
	if g == nil || g.folded == nil || n == nil || n.Op == nil ||
		slices.ContainsFunc(n.Out, func(v *Value) bool { return v.Alias != nil }) { // a view takes no memory
		return compute()
	}
	metas := make([]tensor.Meta, len(n.Out))
	for i, v := range n.Out {
		metas[i] = v.Meta
	}
	attrs := n.Attrs
	if packing := n.Packing(); packing != nil {
		attrs = packing.Format // Format identifies the packing: the functions of a Packing cannot be compared
	}
	key, cached, ok := g.folded.find(n, attrs, metas)
	if !ok {
		return compute()
	}
	if cached != nil {
		return cached, nil
	}
	out, err := compute() // the lock is not held during compute
	if err != nil || len(out) != len(metas) {
		return out, err
	}
	return g.folded.findOrStore(key, n.Op, attrs, out, metas), nil
}

// find returns the key of a call and its cached results. The results are nil if the cache has none. If the cache lacks
// the call, find adds it without results. ok is false if an operand is not constant.
func (f *foldCache) find(n *Node, attrs any, metas []tensor.Meta) (key string, cached []*tensor.Tensor, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if key, ok = f.key(n); !ok {
		return "", nil, false
	}
	return key, f.findOrAddCall(key, n.Op, attrs).tensors(metas), true
}

// findOrStore stores the results of a call and returns them. If another goroutine has already stored results of an
// equal call, findOrStore returns those results instead.
func (f *foldCache) findOrStore(key string, op *Op, attrs any, out []*tensor.Tensor,
	metas []tensor.Meta) []*tensor.Tensor {
	f.mu.Lock()
	defer f.mu.Unlock()
	call := f.findOrAddCall(key, op, attrs)
	if cached := call.tensors(metas); cached != nil {
		return cached
	}
	f.store(call, out)
	return out
}

// key returns a text that identifies a call's op, implementation, operands and results. It omits the attributes,
// because some types of attributes have no text. findOrAddCall compares the attributes. It returns false if an operand
// is not constant.
func (f *foldCache) key(n *Node) (string, bool) {
	key := binary.LittleEndian.AppendUint64(make([]byte, 0, 256), uint64(uintptr(unsafe.Pointer(n.Op))))
	if n.Impl != nil {
		key = appendText(appendText(key, n.Impl.Name), string(n.Walk.LoopOrder))
		for _, order := range n.Walk.ResultOrders {
			key = appendText(key, string(order))
		}
	}
	for _, arg := range n.In {
		key = append(key, ';', byte(arg.Kind))
		switch {
		case arg.Kind == NumberArg:
			key = appendNumber(key, arg.Number)
		case arg.Kind == Null:
		case arg.Value == nil || arg.Value.Const == nil:
			return "", false
		case n.Packing() != nil && n.Packing().View != nil: // Format has the layout in memory: views have equal data
			source := n.Packing().Source(arg.Value.Const)
			key = binary.AppendVarint(append(key, byte(source.DType)), int64(f.idOf(source.Storage())))
			key = binary.AppendVarint(key, int64(source.Offset))
		default:
			key = binary.AppendVarint(key, int64(f.idOf(arg.Value.Const.Storage())))
			key = appendMeta(key, arg.Value.Meta)
		}
	}
	for _, v := range n.Out {
		key = appendMeta(append(key, '>'), v.Meta)
	}
	return string(key), true
}

// appendText appends a text with its length.
func appendText(key []byte, text string) []byte {
	return append(binary.AppendVarint(key, int64(len(text))), text...)
}

// appendNumber appends the dtype and the bits of a number.
func appendNumber(key []byte, number tensor.Scalar) []byte {
	key = binary.AppendVarint(append(key, byte(number.DType())), number.Int())
	key = binary.LittleEndian.AppendUint64(key, math.Float64bits(real(number.Complex())))
	return binary.LittleEndian.AppendUint64(key, math.Float64bits(imag(number.Complex())))
}

// appendMeta appends all fields of a meta.
func appendMeta(key []byte, meta tensor.Meta) []byte {
	key = binary.AppendVarint(append(key, byte(meta.DType)), int64(meta.Offset))
	key = binary.AppendVarint(key, int64(len(meta.Shape)))
	for _, list := range [][]int{meta.Shape, meta.Strides} {
		for _, n := range list {
			key = binary.AppendVarint(key, int64(n))
		}
	}
	return key
}

// idOf returns the id of a storage. If the storage has none, idOf assigns a new id.
func (f *foldCache) idOf(storage *tensor.Storage) int {
	ref := weakStorage(weak.Make(storage))
	id := f.ids[ref]
	if id == 0 {
		f.lastID++
		id = f.lastID
		f.setID(ref, id)
	}
	return id
}

// setID sets the id of a storage.
func (f *foldCache) setID(ref weakStorage, id int) {
	if f.ids == nil {
		f.ids = map[weakStorage]int{}
	}
	const minNewIDs = 64       // minimum number of new ids before the next removal
	if len(f.ids) > f.maxIDs { // remove the ids of garbage-collected storages
		for ref := range f.ids {
			if ref.Value() == nil {
				delete(f.ids, ref)
			}
		}
		f.maxIDs = 2*len(f.ids) + minNewIDs
	}
	f.ids[ref] = id
}

// findOrAddCall returns the cached call with the given key and attributes. It adds the call if it is not in the cache.
func (f *foldCache) findOrAddCall(key string, op *Op, attrs any) *foldedCall {
	for _, call := range f.callsByKey[key] {
		if identical(reflect.ValueOf(call.attrs), reflect.ValueOf(attrs)) {
			call.usedRecently = true
			return call
		}
	}
	if f.callCount >= f.maxCalls {
		f.dropCalls()
	}
	call := &foldedCall{op: op, attrs: attrs, usedRecently: true}
	if f.callsByKey == nil {
		f.callsByKey = map[string][]*foldedCall{}
	}
	f.callsByKey[key] = append(f.callsByKey[key], call)
	f.callCount++
	return call
}

// tensors returns the results of a call, or nil if the call has no results yet or a result is garbage-collected.
func (c *foldedCall) tensors(metas []tensor.Meta) []*tensor.Tensor {
	if len(c.results) != len(metas) {
		return nil
	}
	out := make([]*tensor.Tensor, len(metas))
	for i, ref := range c.results {
		storage := ref.Value()
		if storage == nil {
			return nil
		}
		t, err := tensor.FromStorage(metas[i], storage)
		if err != nil {
			return nil
		}
		out[i] = t
	}
	return out
}

// store stores the results of a call.
func (f *foldCache) store(c *foldedCall, out []*tensor.Tensor) {
	for len(c.resultIDs) < len(out) {
		f.lastID++
		c.resultIDs = append(c.resultIDs, f.lastID)
	}
	c.results = make([]weakStorage, len(out))
	for i, t := range out {
		c.results[i] = weak.Make(t.Storage())
		f.setID(c.results[i], c.resultIDs[i])
	}
}

// dropCalls removes calls whose results are garbage-collected. Such calls would otherwise accumulate: if an attribute
// is a value that the graph computes ([ValueRef]), a run with a new value of the attribute adds a call. dropCalls keeps
// the calls that were used since the last dropCalls, because the ids of their results may be needed again: see ids.
func (f *foldCache) dropCalls() {
	const minNewCalls = 256 // minimum number of new calls before the next dropCalls
	f.callCount = 0
	for key, calls := range f.callsByKey {
		calls = slices.DeleteFunc(calls, func(c *foldedCall) bool { return !c.usedRecently && c.isCollected() })
		for _, c := range calls {
			c.usedRecently = false
		}
		if f.callsByKey[key] = calls; len(calls) == 0 {
			delete(f.callsByKey, key)
		}
		f.callCount += len(calls)
	}
	f.maxCalls = 2*f.callCount + minNewCalls
}

// isCollected reports whether all results of the call are garbage-collected.
func (c *foldedCall) isCollected() bool {
	return !slices.ContainsFunc(c.results, func(ref weakStorage) bool { return ref.Value() != nil })
}
