package tensor

import "slices"

// EachBlock calls visit with the bytes of the elements in row-major order, in blocks of at most maxBytes bytes (but at
// least one element), until visit returns an error. visit must not change a block, nor keep it. Only for a tensor with
// another layout the elements are copied, block by block: the memory does not depend on the size of the tensor.
// EachBlock panics if visit or t is nil, or if t reaches outside its storage.
func (t *Tensor) EachBlock(maxBytes int, visit func(block []byte) error) error {
	t.mustCheck()
	if visit == nil {
		panic("tensor: EachBlock needs a function")
	}
	size := t.DType.Size()
	maxBytes = max(maxBytes/size, 1) * size
	if t.Numel() == 0 {
		return nil
	}
	if t.IsContiguous() {
		data := t.storage.Bytes()[t.Offset*size:][:t.Bytes()]
		for len(data) > maxBytes {
			if err := visit(data[:maxBytes]); err != nil {
				return err
			}
			data = data[maxBytes:]
		}
		return visit(data)
	}
	return t.eachCopiedBlock(NewStorage(min(maxBytes, t.Bytes())), visit)
}

// eachCopiedBlock calls visit with copies in storage.
func (t *Tensor) eachCopiedBlock(storage *Storage, visit func(block []byte) error) error {
	if bytes := t.Bytes(); bytes <= storage.Len() {
		copyElements(&Tensor{Meta: New(t.DType, t.Shape...), storage: storage}, t)
		return visit(storage.Bytes()[:bytes])
	}
	n := t.Shape[0]
	step := max(storage.Len()/(t.Bytes()/n), 1) // indices of dimension 0 in a block
	for start := 0; start < n; start += step {
		part := t.Meta
		part.Shape, part.Offset = slices.Clone(t.Shape), t.Offset+start*t.Strides[0]
		part.Shape[0] = min(step, n-start)
		if step == 1 { // one index may still be too large: divide along the next dimension
			part.Shape, part.Strides = part.Shape[1:], part.Strides[1:]
		}
		if err := (&Tensor{Meta: part, storage: t.storage}).eachCopiedBlock(storage, visit); err != nil {
			return err
		}
	}
	return nil
}
