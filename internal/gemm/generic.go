package gemm

// Generic multiplies once on the calling goroutine, for element types without
// assembly and for callers outside the hot path: it plans, allocates its own
// scratch (args.Shared is ignored) and runs. Integers wrap around.
func Generic[T Number](s Spec, args *Args[T]) error {
	p, err := NewPlan[T](s)
	if err != nil {
		return err
	}
	x := *args
	x.Shared = make([]T, p.ScratchLen())
	p.RunAll(&x, make([]T, p.WorkerScratchLen()))
	return nil
}
