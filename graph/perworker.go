package graph

// PerWorker is memory that each worker has for itself and that, unlike [Mem.Worker], may hold
// pointers: lists that grow, callbacks that are closures over them, the [Mem] of a kernel within
// a kernel. It is made when a worker first asks for it, and kept by whoever owns the [Mem]: from
// chunk to chunk and, in a session, from run to run.
//
// A kernel holds one for each kind of memory that it needs; its address says which is meant, so
// that it must not be copied. What depends on the run, above all addresses, must be cleared
// before a chunk ends, or a session that is kept would keep the run's tensors. Contents do not
// tell which chunks a worker has run before: results must not depend on them.
type PerWorker[T any] struct {
	// Make returns fresh memory; nil means new(T).
	Make func() *T
}

// Of returns the memory of the worker whose Mem it is.
func (p *PerWorker[T]) Of(m *Mem) *T {
	if m.State == nil {
		m.State = new(WorkerState)
	}
	if v, ok := m.State.by[p]; ok {
		return v.(*T)
	}
	var v *T
	if p.Make != nil {
		v = p.Make()
	} else {
		v = new(T)
	}
	if m.State.by == nil {
		m.State.by = map[any]any{}
	}
	m.State.by[p] = v
	return v
}

// WorkerState is what one worker keeps for all [PerWorker] of the kernels that it runs. The zero
// value is ready. It is for one goroutine at a time.
type WorkerState struct{ by map[any]any }
