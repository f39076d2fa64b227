package graph

import (
	"fmt"

	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// Device is a processor with its own memory that runs implementations of nodes. A program uses the host and at most one
// device. Values in the device's memory have the place [tensor.Device]. The methods of a Device may be called
// concurrently.
type Device interface {
	// Name is the name of the device's driver, such as "vulkan".
	Name() string
	// Describe describes the device for users: its name and its kind.
	Describe() string
	// Key is the key of the device in caches: devices with equal keys have the same kernels, which give the same bits.
	Key() string
	// Inexact returns a text with the names of the operations that the device does not round as IEEE 754 requires. The
	// text is empty if the device rounds all operations correctly.
	Inexact() string
	// Impl returns the implementation of an op on the device. For one op, Impl always returns the same pointer. If the
	// device has no kernel for a call, the implementation's function Walks returns an empty list for the call.
	Impl(op *Op) *Impl
	// Upload and Download are the implementations of copies between the host and the device. Layouts must be equal.
	Upload() *Impl
	Download() *Impl
	// Rates returns the time of each kind of work on the device. Prices returns these times as a profile
	// for the cost model. WithRates returns the device with other rates.
	Rates() pricing.DeviceRates
	Prices() *pricing.Profile
	WithRates(rates pricing.DeviceRates) Device
	// Memory is the size of the device's memory in bytes; 0 if it is unknown.
	Memory() int
	// Alloc allocates memory, which is not cleared.
	Alloc(bytes int) (DeviceMemory, error)
	// NewQueue returns a queue for one run at a time.
	NewQueue() Queue
}

// DeviceMemory is memory of a device.
type DeviceMemory interface{ Free() }

// DeviceAddress is an address in the memory of a device. Memory is nil for an operand on the host.
type DeviceAddress struct {
	Memory DeviceMemory
	Offset int // bytes
}

// Queue has the steps of one run that a device executes, in order. Kernels of the device add steps: see [Mem.Queue].
// The host may continue before the device has executed a step. When a download ends, the device has run all earlier
// steps. After a step fails, Wait and downloads return the error of the step until Reset is called. A Queue may be used
// concurrently.
type Queue interface {
	// Upload copies bytes to the device. The caller may change them after Upload returns.
	Upload(to DeviceAddress, from []byte) error
	// Wait waits until the device has run all steps.
	Wait() error
	// Reset clears the error, and removes the steps that the device has not begun.
	Reset()
}

// Place returns the place of the value's memory. A view is in the memory of its root, the value that it views. Before
// implementations are chosen, all values are on the host.
func (v *Value) Place() tensor.Place {
	if root := v.Root(); root != nil && root.Node != nil && root.Node.Impl != nil {
		return root.Node.Impl.ResultPlace
	}
	return tensor.Host
}

// CheckPlaces returns an error if an operand is not in the place (host or device) from which the node's
// implementation reads. As in PyTorch, all operands are on one device, and an operand with 0 dimensions may
// also be on the host.
func (n *Node) CheckPlaces() error {
	if len(n.Out) > 0 && n.Out[0].Alias != nil { // a view reads no memory
		return nil
	}
	source := tensor.Host
	if n.Impl != nil {
		source = n.Impl.OperandPlace
	}
	for i, a := range n.In {
		if a.Kind != TensorArg {
			continue
		}
		place := a.Value.Place()
		if place != source && !(place == tensor.Host && a.Value.Meta.Rank() == 0) {
			return fmt.Errorf("expected all operands to be on the %v, but operand %d, %q, is on the %v", source, i,
				a.Value.Name, place)
		}
	}
	return nil
}

// IsTransfer reports whether the implementation copies between the host and a device.
func (impl *Impl) IsTransfer() bool { return impl != nil && impl.ResultPlace != impl.OperandPlace }

// UploadsConstant reports whether a node copies a constant to the device. Programs make such a copy once for all runs.
func (n *Node) UploadsConstant() bool {
	return n.Impl.IsTransfer() && n.Impl.ResultPlace != tensor.Host && n.In[0].Kind == TensorArg &&
		n.In[0].Value.Root().Const != nil
}

// OnDevice reports whether the implementation reads or writes memory of a device.
func (impl *Impl) OnDevice() bool {
	return impl != nil && (impl.ResultPlace != tensor.Host || impl.OperandPlace != tensor.Host)
}
