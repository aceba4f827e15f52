/* The number type of the sources that are compiled twice, once with -DDL_REAL=float and once with
 * -DDL_REAL=double (CMakeLists.txt lists them). What such a source exports carries the type in its
 * name: DL_TYPED(dl_layer_conv) is dl_layer_conv_float or dl_layer_conv_double. */
#ifndef DL_KERNELS_REAL_H
#define DL_KERNELS_REAL_H

#ifndef DL_REAL
#error "compile this source with -DDL_REAL=float or -DDL_REAL=double"
#endif

typedef DL_REAL dl_real;

#define DL_TYPED_PASTE(name, real) name##_##real
#define DL_TYPED_EXPAND(name, real) DL_TYPED_PASTE(name, real)
#define DL_TYPED(name) DL_TYPED_EXPAND(name, DL_REAL)

#endif
