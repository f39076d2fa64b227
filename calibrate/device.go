package calibrate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// deviceMeasurer measures the prices of work on a device, with the device's own kernels. A run adds a number of equal
// calls to the queue, and then waits for the device. Its time is
//
//	calls * (price of a step + units of work * price of a unit) + price of a wait
//
// [deviceMeasurer.measureStep] measures the prices of a step and of a wait, with small calls. Then
// [deviceMeasurer.fit] solves the equation for the price of a unit, once for each kind of work.
//
// Methods of deviceMeasurer compute float64(a*b) + c instead of a*b + c. The compiler then cannot fuse the two
// operations, and all architectures give the same price.
type deviceMeasurer struct {
	ctx     context.Context
	device  graph.Device
	queue   graph.Queue
	options *Options
	rates   pricing.DeviceRates
	runs    []deviceRun // the runs that determine the prices
}

// deviceRun is a measured run: a number of equal calls, and a wait for the device.
type deviceRun struct {
	kind, unit string       // the kind of work, as in Point.Of, and its unit
	work       pricing.Work // the work of a call
	callBytes  float64      // bytes that a call accesses
	calls      int          // number of calls
	ns         float64      // median time
}

// deviceMeasurements is the number of measurements of a device. The first measures two prices, and the others one price
// each.
const deviceMeasurements = 6

// newDeviceMeasurer returns a measurer of a device, without prices.
func newDeviceMeasurer(ctx context.Context, device graph.Device, options *Options) *deviceMeasurer {
	return &deviceMeasurer{ctx: ctx, device: device, queue: device.NewQueue(), options: options,
		rates: pricing.DeviceRates{Device: device.Rates().Device, Measured: time.Now().UTC().Format(time.RFC3339)}}
}

// checkDevice runs a small call of each measured kernel. An unusable device thus fails before the host is measured.
func checkDevice(ctx context.Context, device graph.Device, options *Options) error {
	measuring := newDeviceMeasurer(ctx, device, options)
	matrices := slices.Repeat([]tensor.Meta{tensor.New(tensor.Float32, 16, 16)}, 2)
	for _, kernel := range []struct {
		name     string
		operands []tensor.Meta
	}{{"relu", matrices[:1]}, {"add", matrices}, {"matmul", matrices}} {
		if err := measuring.runOnce(kernel.name, kernel.operands); err != nil {
			return fmt.Errorf("%s: %s: %w", device.Describe(), kernel.name, err)
		}
	}
	return nil
}

// runOnce runs a kernel once.
func (m *deviceMeasurer) runOnce(name string, operands []tensor.Meta) error {
	call, err := m.prepareCall(name, operands...)
	if err != nil {
		return err
	}
	defer call.free()
	if err := call.enqueue(); err != nil {
		return err
	}
	return m.queue.Wait()
}

// measureDevice returns the prices of a device, and the runs that determine them. report is called before each
// measurement.
func measureDevice(ctx context.Context, device graph.Device, options *Options, report func(done int, name string)) (
	pricing.DeviceRates, []Point, error) {
	measuring := newDeviceMeasurer(ctx, device, options)
	for i, measurement := range [deviceMeasurements]struct {
		name string
		run  func() error
	}{
		{"device.step", measuring.measureStep},
		{pricing.DeviceUpload, measuring.measureUpload},
		{pricing.DeviceDownload, measuring.measureDownload},
		{"device.byte", measuring.measureByte},
		{"device.tiled", measuring.measureTiled},
		{pricing.DeviceOperation, measuring.measureOperation},
	} {
		report(i, measurement.name)
		if err := measurement.run(); err != nil {
			return measuring.rates, nil, fmt.Errorf("%s: %s: %w", device.Describe(), measurement.name, err)
		}
	}
	return measuring.rates, measuring.points(), nil
}

// points returns the measured runs, and their times as the measured prices predict them.
func (m *deviceMeasurer) points() (points []Point) {
	prices := m.rates.Profile()
	for _, run := range m.runs {
		calls := float64(run.calls)
		points = append(points, Point{Of: run.kind, Unit: run.unit, Bytes: calls * run.callBytes, NS: run.ns,
			PredictedNS: float64(calls*prices.PriceNS(run.work)) + m.rates.WaitPS/pricing.PSPerNS})
	}
	return points
}

// medianNS returns the median time of a run in nanoseconds. A run calls `enqueue`, which adds a call to the queue,
// `calls` times, and then waits for the device.
func (m *deviceMeasurer) medianNS(calls int, enqueue func() error) (float64, error) {
	var runTimes []float64
	limit := m.options.CallTime * time.Duration(m.options.Rounds)
	for begin := time.Now(); len(runTimes) <= minRuns || time.Since(begin) < limit; {
		if err := m.ctx.Err(); err != nil {
			return 0, err
		}
		start := time.Now()
		for range calls {
			if err := enqueue(); err != nil {
				return 0, err
			}
		}
		if err := m.queue.Wait(); err != nil {
			return 0, err
		}
		runTimes = append(runTimes, float64(time.Since(start)))
	}
	return median(runTimes[1:]), nil // the first run touches memory for the first time
}

// measureStep measures the prices of a step and of a wait.
func (m *deviceMeasurer) measureStep() error {
	const longRunSteps = 64 // steps of the longer run
	small := tensor.New(tensor.Float32, 32)
	step, err := m.prepareCall("relu", small)
	if err != nil {
		return err
	}
	defer step.free()
	singleNS, err := m.medianNS(1, step.enqueue)
	if err != nil {
		return err
	}
	manyNS, err := m.medianNS(longRunSteps, step.enqueue)
	if err != nil {
		return err
	}
	// singleNS is a step and a wait, manyNS is longRunSteps steps and a wait. The work of a step is negligible.
	m.rates.StepPS = pricing.PSPerNS * max(manyNS-singleNS, 0) / (longRunSteps - 1)
	m.rates.WaitPS = max(float64(pricing.PSPerNS*singleNS)-m.rates.StepPS, 0)
	m.runs = append(m.runs, deviceRun{pricing.DeviceWait, "wait", step.work, step.bytes, 1, singleNS},
		deviceRun{"device.step", "step", step.work, step.bytes, longRunSteps, manyNS})
	return nil
}

// measureUpload measures the copy of a byte to the device.
func (m *deviceMeasurer) measureUpload() error {
	sizes := deviceSizes{first: 4 << 10, factor: 4, last: m.options.MaxBytes, maxCalls: 1}
	return m.fit(pricing.DeviceUpload, "byte", &m.rates.UploadPS, sizes, func(bytes int) (*deviceCall, error) {
		memory, err := m.device.Alloc(bytes)
		if err != nil {
			return nil, err
		}
		from := make([]byte, bytes)
		return transferCall(pricing.DeviceUpload, bytes, memory,
			func() error { return m.queue.Upload(graph.DeviceAddress{Memory: memory}, from) }), nil
	})
}

// measureDownload measures the copy of a byte from the device.
func (m *deviceMeasurer) measureDownload() error {
	sizes := deviceSizes{first: 4 << 10, factor: 4, last: m.options.MaxBytes, maxCalls: 1}
	return m.fit(pricing.DeviceDownload, "byte", &m.rates.DownloadPS, sizes, func(bytes int) (*deviceCall, error) {
		meta := tensor.New(tensor.Float32, bytes/4)
		kernel, err := m.device.Download().Lower(&graph.Call{In: []graph.Arg{operandOf(meta)}, Out: []tensor.Meta{meta}})
		if err != nil {
			return nil, err
		}
		memory, err := m.device.Alloc(bytes)
		if err != nil {
			return nil, err
		}
		to := make([]byte, bytes)
		// The result is on the host, at Ptrs[0], and the operand on the device, at Addresses[1].
		mem := &graph.Mem{Queue: m.queue, Ptrs: []unsafe.Pointer{unsafe.Pointer(&to[0]), nil},
			Addresses: []graph.DeviceAddress{{}, {Memory: memory}}}
		return transferCall(pricing.DeviceDownload, bytes, memory, func() error { return runKernel(kernel, mem) }), nil
	})
}

// transferCall returns a call that copies bytes to or from memory. kind is the kind of the work, whose unit is a byte.
// The work does not include the wait for a download, because each measured run ends with a wait.
func transferCall(kind string, bytes int, memory graph.DeviceMemory, enqueue func() error) *deviceCall {
	transfer := &deviceCall{enqueue: enqueue, free: memory.Free, bytes: float64(bytes), units: float64(bytes)}
	transfer.work.StartedSteps = 1
	transfer.work.AddUnoverlapped(kind, transfer.units)
	return transfer
}

// addBytes is the number of bytes that an addition of float32 accesses for each element: two operands and a result.
const addBytes = 3 * 4

// measureByte measures the memory access of a pointwise kernel.
func (m *deviceMeasurer) measureByte() error {
	sizes := deviceSizes{first: 1 << 10, factor: 4, last: m.options.MaxBytes / addBytes, maxCalls: 256}
	return m.fit("device.byte", "byte", &m.rates.BytePS, sizes, func(size int) (*deviceCall, error) {
		meta := tensor.New(tensor.Float32, size)
		call, err := m.prepareCall("add", meta, meta)
		if err == nil {
			call.units = call.bytes
		}
		return call, err
	})
}

// measureTiled measures a byte of a transposed operand of a pointwise kernel. The time of the other operand and of the
// result is predicted.
func (m *deviceMeasurer) measureTiled() error {
	sizes := deviceSizes{first: 32, factor: 2, last: int(math.Sqrt(float64(m.options.MaxBytes) / addBytes)), maxCalls: 256}
	return m.fit("device.tiled", "byte", &m.rates.TiledPS, sizes, func(size int) (*deviceCall, error) {
		meta := tensor.New(tensor.Float32, size, size)
		call, err := m.prepareCall("add", meta, meta.WithStrides([]int{1, size}))
		if err == nil {
			call.units = call.work.Bytes[pricing.Tiled]
			call.otherPS = float64(call.work.Bytes[pricing.Dense] * m.rates.BytePS)
		}
		return call, err
	})
}

// measureOperation measures an operation of a product of matrices.
func (m *deviceMeasurer) measureOperation() error {
	const unit = "multiply-add"
	sizes := deviceSizes{first: 16, factor: 2, last: 2048, maxCalls: 256}
	return m.fit(pricing.DeviceOperation, unit, &m.rates.OperationPS, sizes, func(size int) (*deviceCall, error) {
		meta := tensor.New(tensor.Float32, size, size)
		call, err := m.prepareCall("matmul", meta, meta)
		if err == nil {
			call.units = operationsOf(&call.work)
		}
		return call, err
	})
}

// deviceSizes are the sizes of the calls that determine a price: first, first*factor and so on up to last. The size
// first is always measured. The unit of a size depends on the price: bytes, elements or the side of a matrix. A run has
// at most maxCalls calls.
type deviceSizes struct{ first, factor, last, maxCalls int }

// fit sets price to the time of a unit, in picoseconds, without the overhead: the time of steps, the wait and other
// work. It measures calls of growing size, until a call takes Options.CallTime and the overhead is small. The largest
// call determines the price.
func (m *deviceMeasurer) fit(kind, unit string, price *float64, sizes deviceSizes,
	prepare func(size int) (*deviceCall, error)) error {
	largest := deviceRun{kind: kind, unit: unit}
	for size, needsLarger := sizes.first, true; needsLarger; size *= sizes.factor {
		call, err := prepare(size)
		if err != nil {
			return err
		}
		largest.calls, largest.ns, err = m.timeCalls(call, sizes.maxCalls)
		call.free()
		if err != nil {
			return err
		}
		largest.work, largest.callBytes = call.work, call.bytes
		var overheadIsSmall bool
		*price, overheadIsSmall = m.unitPS(call, largest.calls, largest.ns)
		isLong := largest.ns/float64(largest.calls) >= float64(m.options.CallTime)
		needsLarger = !(isLong && overheadIsSmall) && size*sizes.factor <= sizes.last
	}
	m.runs = append(m.runs, largest)
	return nil
}

// timeCalls measures runs of 1, 4, 16 and so on equal calls, at most maxCalls, until a run takes Options.CallTime. It
// returns the number of calls of the last run, and its median time.
func (m *deviceMeasurer) timeCalls(call *deviceCall, maxCalls int) (calls int, ns float64, err error) {
	for calls = 1; ; calls *= 4 {
		ns, err = m.medianNS(calls, call.enqueue)
		if err != nil || calls*4 > maxCalls || ns >= float64(m.options.CallTime) {
			return calls, ns, err
		}
	}
}

// unitPS returns the price of a unit of a call's work, from the time of a run of equal calls.
func (m *deviceMeasurer) unitPS(call *deviceCall, calls int, ns float64) (price float64, overheadIsSmall bool) {
	overheadPS := float64(float64(calls)*(m.rates.StepPS+call.otherPS)) + m.rates.WaitPS
	// The wait of a run with large calls may be shorter than the measured wait. The overhead is therefore limited to half
	// of the time, so that the price is positive.
	overheadPS = min(overheadPS, pricing.PSPerNS*ns/2)
	price = (float64(pricing.PSPerNS*ns) - overheadPS) / (float64(calls) * call.units)
	return price, overheadPS <= pricing.PSPerNS*ns/4
}

// deviceCall is a call that a queue can repeat.
type deviceCall struct {
	enqueue func() error // adds the call to the queue
	free    func()
	work    pricing.Work
	bytes   float64 // bytes that the call accesses
	units   float64 // units of the work whose price the call measures
	otherPS float64 // the predicted time of other work, in picoseconds
}

// prepareCall prepares a call of an op on the device.
func (m *deviceMeasurer) prepareCall(name string, operands ...tensor.Meta) (*deviceCall, error) {
	built := graph.New("calibrate", kernels.Lookup)
	var in []any
	for i, meta := range operands {
		in = append(in, built.InputMeta(fmt.Sprint("x", i), meta))
	}
	values := built.Apply(name, nil, in...)
	if err := built.Err(); err != nil {
		return nil, err
	}
	node := values[0].Node
	impl, call := m.device.Impl(node.Op), node.Call()
	kernel, err := impl.Lower(call)
	if err != nil {
		return nil, err
	}
	// A walk is the order of a kernel's loops and results. Work includes reading operands in the layout that suits the
	// walk. Read is the additional work if an operand has another layout.
	walk := call.WalkInOrder(tensor.RowMajorOrder(call.Out[0].Rank()))
	work := impl.Work(call, walk)
	for i, meta := range operands {
		read, ok := impl.Read(call, walk, i, meta)
		if !ok {
			return nil, fmt.Errorf("the device cannot read %v", meta)
		}
		work = work.Plus(read)
	}
	prepared := &deviceCall{work: work, bytes: work.TotalBytes()}
	if prepared.bytes <= 0 || operationsOf(&work) <= 0 { // as for an op without kernels
		return nil, errors.New("the device has no kernel for " + name)
	}
	return prepared, m.allocate(prepared, kernel, call.Out[0], operands)
}

// operationsOf returns the number of operations of work on a device. An operation is an instruction on an element.
func operationsOf(work *pricing.Work) (operations float64) {
	for _, part := range work.Parts {
		if part.Kernel == pricing.DeviceOperation {
			operations += part.Units
		}
	}
	return operations
}

// allocate allocates the result, the operands and the scratch memory of a call, and sets the fields enqueue and free.
// It fills the operands with random numbers.
func (m *deviceMeasurer) allocate(prepared *deviceCall, kernel *graph.Kernel, out tensor.Meta, in []tensor.Meta) error {
	mem := &graph.Mem{Queue: m.queue, Place: tensor.Device, Ptrs: make([]unsafe.Pointer, 1+len(in))}
	prepared.enqueue = func() error { return runKernel(kernel, mem) }
	prepared.free = func() {
		for _, address := range mem.Addresses {
			address.Memory.Free()
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	sizes := []int{out.Bytes()} // in bytes: the result, the operands, the scratch memory
	sizes = append(sizes, append(bytesOf(in), kernel.Scratch)...)
	for i, size := range sizes {
		memory, err := m.device.Alloc(size)
		if err != nil {
			prepared.free()
			return err
		}
		address := graph.DeviceAddress{Memory: memory}
		mem.Addresses = append(mem.Addresses, address)
		if isOperand := i >= 1 && i <= len(in); !isOperand {
			continue
		}
		if err := m.queue.Upload(address, randomTensor(in[i-1], rng, noIntegers).Storage().Bytes()); err != nil {
			prepared.free()
			return err
		}
	}
	return nil
}

// bytesOf returns the sizes of tensors.
func bytesOf(list []tensor.Meta) (bytes []int) {
	for _, meta := range list {
		bytes = append(bytes, meta.Bytes())
	}
	return bytes
}

// operandOf returns an operand with a layout.
func operandOf(meta tensor.Meta) graph.Arg {
	return graph.ArgOf(&graph.Value{Meta: meta, Type: meta.Type()})
}

// runKernel runs all chunks of a kernel.
func runKernel(kernel *graph.Kernel, mem *graph.Mem) error {
	for _, phase := range kernel.Phases {
		for chunk := range phase.Chunks {
			if err := phase.Run(mem, chunk); err != nil {
				return err
			}
		}
	}
	return nil
}
