// Package winograd generates machine code for the transforms of Winograd convolutions of float32, F(2x2, 3x3) and
// F(4x4, 3x3) (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016), for AVX-512, AVX2 and
// NEON.
//
// A Winograd convolution F(m x m, 3 x 3) computes tiles of m x m output pixels. It transforms the (m+2) x (m+2) input
// pixels of a tile to (m+2) x (m+2) points. For each point, it multiplies by the transformed weights and adds up the
// products over the input channels. It transforms these sums to the m x m output pixels. For a point, the sums of all
// tiles are a product of matrices [tiles, input channels] and [input channels, output channels]. The convolution
// becomes (m+2)^2 matrix products with fewer multiplications than the direct computation. For each tile and pair of
// channels there are 16 instead of 36 with m = 2, and 36 instead of 144 with m = 4.
//
// Package internal/jit/tile usually computes the products, and kernels/internal/conv combines them with the transforms.
// A [Form] is F(2x2, 3x3) or F(4x4, 3x3). [Form.CompileInput] compiles the transform of input pixels to points.
// [Form.CompileWeights] compiles the transform of the weights of a window. [Form.CompileOutput] compiles the transform
// of points to output pixels, with a bias and an epilogue of element-wise operations. They return a [Transform], which
// [Transform.Run] executes for many tiles. [Products] can replace CompileWeights and the matrix products: it multiplies
// points by weights that it transforms in registers. The lanes of a vector are adjacent channels. Strides are arguments
// of the call, so that convolutions of all sizes use the same code.
//
// The generator of transforms has four parts. form.go defines the one-dimensional transforms as a few additions and
// multiply-adds. transforms2d.go applies them to the columns and then the rows of a tile or window, which gives one
// straight-line sequence of operations (block.go). In this sequence, pixels outside the image are constant zeros that
// need no instructions, and unused results are not computed. select.go selects instructions, calls package
// internal/jit/alloc to allocate registers, and emits the instructions. emit.go emits the surrounding loops over
// channels and tiles. Both emit through a [target.Writer]. The processor affects only the choice of multiply-add
// instructions and their memory operands. All processors compute the same operations in the same order, so results have
// the same bits.
package winograd
