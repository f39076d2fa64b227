package target

// ByteDepthwise configures the vector instructions of depthwise convolutions of bytes. depthwise.ByteSpec explains the
// order of channels and the fields that have the same names there.
type ByteDepthwise struct {
	FlipSigns, SignedIn, Signed, Sums, WordProducts bool

	Channels    int      // AVX2 and NEON: number of channels that are written; 0 for all channels of a vector
	ChannelMask ArgsWord // AVX-512: bit mask of the channels that are read and written
	Spill       ArgsWord // first word of 32 bytes of scratch memory
	Temporary   GReg     // a register that is free while results are stored
}
