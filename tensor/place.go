package tensor

// Place identifies the memory of a storage and the processor whose kernels can access that memory. Inputs and outputs
// of programs are on the [Host].
type Place uint8

const (
	// Host is the memory of the process.
	Host Place = iota
	// Device is the memory of the device of a program.
	Device
)

// String returns "host" or "device".
func (p Place) String() string {
	if p == Host {
		return "host"
	}
	return "device"
}

// StorageAt returns a storage that uses data without a copy, and has the place p. The host can access data at every
// place. [StorageOf] does the same for [Host].
func StorageAt(p Place, data []byte) *Storage { return &Storage{data: data, place: p} }

// Place returns the place of the storage; [Host] for nil storage.
func (s *Storage) Place() Place {
	if s == nil {
		return Host
	}
	return s.place
}
