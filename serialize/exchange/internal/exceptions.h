// try and catch that also compile with -fno-exceptions, where `operator new` ends the process instead of throwing.
//
//   CASK_TRY { Add(client); }
//   CASK_CATCH(const std::bad_alloc&) { Disconnect(client); }

#ifndef TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_EXCEPTIONS_H_
#define TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_EXCEPTIONS_H_

#if defined(__cpp_exceptions)
#define CASK_TRY try
#define CASK_CATCH(what) catch (what)
#else
#define CASK_TRY if (true)
#define CASK_CATCH(what) if (false)
#endif

#endif  // TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_EXCEPTIONS_H_
