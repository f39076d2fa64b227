package exec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// This file finds the memory of a run's inputs and outputs. Outputs are in tensors of the caller, in new memory, or in
// memory of the pool. Inputs with another layout than the graph declares are copied.
//
// A storage is the memory of a root value and its views. The storage of an output is new in each run (inNewMemory), in
// the arena (inArena), an input's tensor (inInput), or a constant's tensor (inConst): see outputs.go. Omitted values are
// results of nodes that were omitted at compilation (Options.KeepGoing).

// findDirectOutputs finds the outputs that a step can write directly into the caller's tensor. Such an output has
// memory of its own in each run (inNewMemory). The output covers all bytes of its root value, so that the step writes
// no bytes of the tensor except its elements.
func (p *Program) findDirectOutputs() {
	p.directOutputs = make([]bool, len(p.outputs))
	for i, output := range p.outputs {
		isComputed := !p.omittedValues[output.Value] && output.Value.Meta.Numel() > 0
		p.directOutputs[i] = isComputed && p.storages[p.storageOf(output.Value)].kind == inNewMemory &&
			coversRoot(output.Value)
	}
}

// coversRoot reports whether the elements of a value are all bytes of its root value, each once.
func coversRoot(v *graph.Value) bool {
	meta, root := v.Meta, v.Root().Meta
	hasSameRange := meta.Bytes() == root.Bytes() && meta.Offset*meta.DType.Size() == root.Offset*root.DType.Size()
	return hasSameRange && root.IsNonOverlappingAndDense() && !meta.OverlapsItself()
}

// allocateOutputs sets the memory of the outputs: the caller's tensor if it has the layout of the output, otherwise
// memory from the pool. Memory with gaps between elements is cleared, so that a result never contains bytes of another
// run.
func (s *Session) allocateOutputs(inputs, outputs []*tensor.Tensor) error {
	program := s.program
	for i, given := range outputs {
		output := program.outputs[i]
		if given == nil || program.omittedValues[output.Value] {
			continue
		}
		meta := output.Value.Meta
		if err := CheckOutput(output.Name, meta.DType, meta.Shape, given); err != nil {
			return err
		}
		if program.cacheOf(i) != nil { // in the memory of an input
			continue
		}
		direct, err := program.checkWritable(i, inputs, outputs) // direct: a step may write the tensor
		if err != nil {
			return err
		}
		memory := &s.outputMemories[program.storageOf(output.Value)]
		isFree := memory.storage == nil // no earlier output with the same storage has a tensor
		mayWriteDirectly := direct && program.directOutputs[i] && isFree
		// The offset of the tensor in its storage may exceed the offset of the output in the program's storage. It must not
		// be smaller.
		if mayWriteDirectly && given.SameAddresses(meta) && given.Offset >= meta.Offset && isAligned(given) {
			*memory = outputMemory{storage: given.Storage(), shiftBytes: (given.Offset - meta.Offset) * meta.DType.Size(),
				directOutput: i + 1}
		}
	}
	for k := range program.storages {
		if storage := &program.storages[k]; storage.kind == inNewMemory && s.outputMemories[k].storage == nil {
			mustClear := !coversStorage(storage.root.Meta)
			s.outputMemories[k].storage = program.pool.Take(storage.bytes, mustClear)
		}
	}
	return nil
}

// coversStorage reports whether the elements of a value cover all bytes of its storage.
func coversStorage(meta tensor.Meta) bool { return meta.Offset == 0 && meta.IsNonOverlappingAndDense() }

// isAligned reports whether elements have the alignment that kernels require for writing: the size of an element, but
// at most the size of a pointer.
func isAligned(t *tensor.Tensor) bool {
	return uintptr(t.Pointer())%uintptr(min(t.DType.Size(), int(unsafe.Sizeof(uintptr(0))))) == 0
}

// CheckOutput returns an error for a tensor that cannot receive an output of the given name, dtype and shape.
func CheckOutput(name string, dtype tensor.DType, shape []int, given *tensor.Tensor) error {
	switch err := given.Check(); {
	case err != nil:
		return fmt.Errorf("the tensor given for output %q: %w", name, err)
	case given.Storage().Place() != tensor.Host:
		return fmt.Errorf("the tensor given for output %q is in the memory of the %v, but the program runs on the %v",
			name, given.Storage().Place(), tensor.Host)
	case given.DType != dtype:
		return fmt.Errorf("output %q is %v, but the tensor given for it is %v", name, dtype, given.DType)
	case !slices.Equal(given.Shape, shape):
		return fmt.Errorf("output %q has shape %s, but the tensor given for it has shape %s", name, tensor.ListString(shape),
			tensor.ListString(given.Shape))
	case given.OverlapsItself():
		return fmt.Errorf("the tensor given for output %q: more than one element of the written-to tensor refers to a "+
			"single memory location (strides %s)", name, tensor.ListString(given.Strides))
	}
	return nil
}

// inputsInLayout returns the inputs in the layouts for which the program was compiled. An input in another layout is
// copied.
func (s *Session) inputsInLayout(ctx context.Context, inputs []*tensor.Tensor) ([]*tensor.Tensor, error) {
	copied := false
	for i, v := range s.program.inputs {
		declared := v.Meta
		if !s.program.readsStorage { // no step reads memory before the first element
			declared.Offset = 0
		}
		if input := inputs[i]; input.SameAddresses(declared) && input.Offset >= declared.Offset {
			continue
		}
		if !copied {
			inputs, copied = slices.Clone(inputs), true
		}
		var err error
		if inputs[i], err = s.copyOf(ctx, inputs[i], declared); err != nil {
			return nil, err
		}
	}
	return inputs, nil
}

// copyOf returns a copy of the source with the layout meta, offset included. Its memory is released at the end of the
// run unless [Session.passToCaller] keeps it.
func (s *Session) copyOf(ctx context.Context, source *tensor.Tensor, meta tensor.Meta) (*tensor.Tensor, error) {
	copied, err := PooledCopy(ctx, s.program.pool, source, meta, s.program.threads)
	if err == nil {
		s.copies = append(s.copies, copied.Storage())
	}
	return copied, err
}

// PooledCopy returns a copy of the source with the layout meta, offset included. Its memory is from the pool.
func PooledCopy(ctx context.Context, pool *tensor.Pool, source *tensor.Tensor, meta tensor.Meta,
	workers int) (*tensor.Tensor, error) {
	if err := meta.Check(); err != nil || pool == nil || source == nil {
		return nil, cmp.Or(err, errors.New("the pool or the tensor to copy is nil"))
	}
	mustClear := !coversStorage(meta)
	copied := tensor.Must(tensor.FromStorage(meta, pool.Take(meta.Extent()*meta.DType.Size(), mustClear)))
	return copied, iter.CopyElements(ctx, copied, source, workers)
}

// passToCaller passes the memory of t to the caller, so that the session does not release the memory.
func (s *Session) passToCaller(t *tensor.Tensor) {
	if i := slices.Index(s.copies, t.Storage()); i >= 0 {
		s.copies[i] = nil
	}
}

// deliverOutput sets output i to a tensor over the storage that the run wrote, a view of an input, or a copy. With
// onlyGivenOutputs, it sets only outputs for which the caller gave a tensor.
func (s *Session) deliverOutput(ctx context.Context, i int, inputs, outputs []*tensor.Tensor) error {
	output := s.program.outputs[i]
	root := output.Value.Root()
	storageIndex := s.program.storageOf(root)
	storage, meta := &s.program.storages[storageIndex], output.Value.Meta
	isGiven := outputs[i] != nil
	// directOutput is 1 + the index of the output whose tensor a step has written directly, or 0.
	isWritten := s.outputMemories[storageIndex].directOutput == i+1
	if isWritten || s.onlyGivenOutputs && !isGiven || isGiven && s.program.cacheOf(i) != nil {
		return nil
	}
	var result *tensor.Tensor
	var err error
	switch storage.kind {
	case inNewMemory:
		memory := &s.outputMemories[storageIndex]
		if memory.directOutput > 0 { // the storage is the caller's tensor for another output
			result, err = tensor.FromStorage(meta, tensor.StorageOf(memory.storage.Bytes()[memory.shiftBytes:]))
			break
		}
		if result, err = tensor.FromStorage(meta, memory.storage); err == nil && !isGiven {
			memory.ownedByCaller = true
		}
	case inInput:
		result, err = s.viewOfInput(ctx, inputs[storage.inputIndex], root.Meta, meta)
	case inArena:
		inArena := meta
		inArena.Offset += storage.arenaOffset / meta.DType.Size()
		result, err = tensor.FromStorage(inArena, s.arena)
	default: // inConst
		result, err = storage.data.View(meta)
	}
	if copyIndex := s.program.outputPlan.copyOf[i] - 1; err == nil && copyIndex >= 0 && !isGiven {
		result, err = s.copyOutput(ctx, copyIndex, result, meta)
	}
	if err != nil {
		return err
	}
	if isGiven {
		return iter.CopyElements(ctx, outputs[i], result, s.program.threads)
	}
	s.passToCaller(result)
	outputs[i] = result
	return nil
}

// viewOfInput returns a view of an input. declared and meta are the layouts of the input and of the view in the
// program. The caller's tensor may begin at another offset.
func (s *Session) viewOfInput(ctx context.Context, input *tensor.Tensor, declared, meta tensor.Meta) (*tensor.Tensor,
	error) {
	shiftBytes := (input.Offset - declared.Offset) * input.DType.Size() // the view may have another element size
	if shiftBytes%meta.DType.Size() != 0 {
		// The first byte of the view is not at a multiple of its element size, so the output is a copy.
		shiftBytes = -declared.Offset * input.DType.Size()
		declared.Offset = 0
		var err error
		if input, err = s.copyOf(ctx, input, declared); err != nil {
			return nil, err
		}
	}
	view := meta
	view.Offset += shiftBytes / meta.DType.Size()
	return input.View(view)
}
